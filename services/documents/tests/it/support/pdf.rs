//! PDF files, written by `lopdf` or by hand.

use lopdf::{Dictionary, Document, EncryptionState, EncryptionVersion, Object, Permissions, Stream, dictionary};
use std::fmt::Write;

/// A PDF with these lines per page, each line positioned separately.
pub fn of_pages(pages: &[&[&str]]) -> Vec<u8> {
    let mut document = pages_of(pages, false);
    saved(&mut document)
}

/// The same, compressed, with object and cross-reference streams.
pub fn compressed(pages: &[&[&str]]) -> Vec<u8> {
    let mut document = pages_of(pages, false);
    document.compress();
    let mut bytes = Vec::new();
    let options = lopdf::SaveOptions::builder().use_object_streams(true).use_xref_streams(true).build();
    document.save_with_options(&mut bytes, options).expect("a PDF can be written");
    bytes
}

/// The same in a font with its own codes, which only its `ToUnicode` table maps to characters.
pub fn in_unicode(pages: &[&[&str]]) -> Vec<u8> {
    let mut document = pages_of(pages, true);
    document.compress();
    saved(&mut document)
}

/// The same, encrypted with a password.
pub fn encrypted(pages: &[&[&str]], user_password: &str) -> Vec<u8> {
    let mut document = pages_of(pages, false);
    let id = Object::string_literal("0123456789abcdef");
    document.trailer.set("ID", vec![id.clone(), id]);
    let version = EncryptionVersion::V2 {
        document: &document,
        owner_password: "owner",
        user_password,
        key_length: 128,
        permissions: Permissions::all(),
    };
    let state = EncryptionState::try_from(version).expect("a key can be created");
    document.encrypt(&state).expect("it can be encrypted");
    saved(&mut document)
}

/// A page that unpacks to `unpacked` bytes.
pub fn bomb(unpacked: usize) -> Vec<u8> {
    let mut document = one_page(vec![b' '; unpacked]);
    document.compress();
    saved(&mut document)
}

/// A page with this content stream.
pub fn with_content(content: Vec<u8>) -> Vec<u8> {
    saved(&mut one_page(content))
}

/// Written by hand: one page, two lines, an xref table with correct offsets.
pub fn by_hand() -> Vec<u8> {
    let content = "BT /F1 12 Tf 72 700 Td (Loan Number: HAND-77) Tj 0 -14 Td (AmountField due: $1,234.56) Tj ET";
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    let mut file = "%PDF-1.4\n".to_owned();
    let mut offsets = Vec::new();
    for (number, object) in (1..).zip(&objects) {
        offsets.push(file.len());
        write!(file, "{number} 0 obj\n{object}\nendobj\n").expect("writing to a string succeeds");
    }
    let start = file.len();
    file.push_str("xref\n0 6\n0000000000 65535 f \n");
    for offset in offsets {
        writeln!(file, "{offset:010} 00000 n ").expect("writing to a string succeeds");
    }
    write!(file, "trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n")
        .expect("writing to a string succeeds");
    file.into_bytes()
}

fn pages_of(pages: &[&[&str]], unicode: bool) -> Document {
    let mut document = Document::with_version("1.5");
    let tree = document.new_object_id();
    let characters = {
        let mut all: Vec<char> = pages.iter().flat_map(|lines| lines.iter()).flat_map(|line| line.chars()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let font = if unicode { composite_font(&mut document, &characters) } else { simple_font() };
    let font = document.add_object(font);
    let resources = document.add_object(dictionary! { "Font" => dictionary! { "F1" => font } });
    let kids: Vec<Object> = pages
        .iter()
        .map(|lines| {
            let content =
                document.add_object(Stream::new(dictionary! {}, drawn(lines, unicode.then_some(&characters))));
            let page = dictionary! {
                "Type" => "Page", "Parent" => tree, "Contents" => content, "Resources" => resources,
                "MediaBox" => vec![0.into(), 0.into(), 612.into(), 792.into()],
            };
            document.add_object(page).into()
        })
        .collect();
    let count = i64::try_from(kids.len()).expect("few pages");
    document.objects.insert(tree, dictionary! { "Type" => "Pages", "Kids" => kids, "Count" => count }.into());
    let catalog = document.add_object(dictionary! { "Type" => "Catalog", "Pages" => tree });
    document.trailer.set("Root", catalog);
    document
}

fn one_page(content: Vec<u8>) -> Document {
    let mut document = pages_of(&[&[]], false);
    let page = document.page_iter().next().expect("it has one page");
    let content = document.add_object(Stream::new(dictionary! {}, content));
    let page = document.get_dictionary_mut(page).expect("a page is a dictionary");
    page.set("Contents", content);
    document
}

/// Positions each line separately, as most writers do.
fn drawn(lines: &[&str], codes: Option<&Vec<char>>) -> Vec<u8> {
    let mut content = "BT /F1 12 Tf 72 720 Td\n".to_owned();
    for line in lines {
        let hex: String = match codes {
            Some(codes) => line.chars().map(|one| format!("{:04X}", code(codes, one))).collect(),
            None => line.bytes().map(|byte| format!("{byte:02X}")).collect(),
        };
        writeln!(content, "<{hex}> Tj 0 -14 Td").expect("writing to a string succeeds");
    }
    content.push_str("ET\n");
    content.into_bytes()
}

fn code(codes: &[char], character: char) -> usize {
    codes.iter().position(|one| *one == character).expect("every character has a code") + 1
}

fn simple_font() -> Dictionary {
    dictionary! { "Type" => "Font", "Subtype" => "Type1", "BaseFont" => "Helvetica", "Encoding" => "WinAnsiEncoding" }
}

fn composite_font(document: &mut Document, characters: &[char]) -> Dictionary {
    let mut table = "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CMapType 2 def\n\
                     1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n"
        .to_owned();
    for chunk in characters.chunks(100) {
        writeln!(table, "{} beginbfchar", chunk.len()).expect("writing to a string succeeds");
        for character in chunk {
            let mut units = [0; 2];
            let units: String = character.encode_utf16(&mut units).iter().map(|unit| format!("{unit:04X}")).collect();
            writeln!(table, "<{:04X}> <{units}>", code(characters, *character)).expect("writing to a string succeeds");
        }
        table.push_str("endbfchar\n");
    }
    table.push_str("endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n");
    let to_unicode = document.add_object(Stream::new(dictionary! {}, table.into_bytes()));
    let descendant = document.add_object(dictionary! {
        "Type" => "Font", "Subtype" => "CIDFontType2", "BaseFont" => "Own", "DW" => 500,
        "CIDSystemInfo" => dictionary! {
            "Registry" => Object::string_literal("Adobe"), "Ordering" => Object::string_literal("Identity"), "Supplement" => 0,
        },
    });
    dictionary! {
        "Type" => "Font", "Subtype" => "Type0", "BaseFont" => "Own", "Encoding" => "Identity-H",
        "DescendantFonts" => vec![Object::from(descendant)], "ToUnicode" => to_unicode,
    }
}

fn saved(document: &mut Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).expect("a PDF can be written");
    bytes
}
