//! A connection up to the point where it can take mails.

use super::{
    SmtpCredentials, SmtpSecurity, SmtpSettings, SmtpStepKind,
    reply::SmtpReply,
    step::StepLog,
    stream::SmtpStream,
    wire::{SmtpWire, WireError},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::pki_types::ServerName;
use std::time::{Duration, Instant};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

/// What the server offers in its answer to EHLO.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerExtensions {
    pub(super) has_smtputf8: bool,
    pub(super) has_8bitmime: bool,
    pub(super) has_pipelining: bool,
    has_starttls: bool,
    has_auth_plain: bool,
    has_auth_login: bool,
    /// The size limit, if the server declares one.
    pub(super) max_bytes: Option<usize>,
    pub(super) has_size: bool,
}

/// A connection that was greeted and, if the settings have an account, authenticated.
pub(super) struct SmtpConnection {
    pub(super) wire: SmtpWire,
    pub(super) extensions: ServerExtensions,
    /// How many mails it has taken.
    pub(super) mails: u32,
    pub(super) idle_since: Instant,
}

/// Opens a connection. The error is the reason why the provider is unavailable.
pub(super) async fn open(
    settings: &SmtpSettings,
    tls: Option<&TlsConnector>,
    log: &mut StepLog,
) -> Result<SmtpConnection, String> {
    let tcp = connect(settings, log).await?;
    let mut stream = SmtpStream::Plain(tcp);
    if let (SmtpSecurity::ImplicitTls, Some(tls)) = (settings.security, tls) {
        stream = handshake(settings, tls, stream, log).await?;
    }
    let mut opening = Opening { wire: SmtpWire::new(stream), settings, log };
    opening.greeting().await?;
    let mut extensions = opening.hello().await?;
    if let (SmtpSecurity::StartTls, Some(tls)) = (settings.security, tls) {
        if !extensions.has_starttls {
            return Err("the server does not offer STARTTLS".to_owned());
        }
        opening.expect(SmtpStepKind::StartTls, "STARTTLS\r\n", 220).await?;
        let stream = opening.wire.into_stream().map_err(|error| error.to_string())?;
        opening.wire = SmtpWire::new(handshake(settings, tls, stream, opening.log).await?);
        // What was offered without TLS may have been changed on the way.
        extensions = opening.hello().await?;
    }
    if let Some(credentials) = &settings.credentials {
        opening.authenticate(credentials, &extensions).await?;
    }
    Ok(SmtpConnection { wire: opening.wire, extensions, mails: 0, idle_since: Instant::now() })
}

async fn connect(settings: &SmtpSettings, log: &mut StepLog) -> Result<TcpStream, String> {
    let start = Instant::now();
    let limit = settings.timeouts.connect;
    let connecting = timeout(limit, TcpStream::connect((settings.host.as_str(), settings.port))).await;
    let failure = match connecting {
        Ok(Ok(tcp)) => {
            // Commands are short and answered: nothing is gained by waiting for more to send.
            let _ = tcp.set_nodelay(true);
            log.event(SmtpStepKind::Connect, start, "connected");
            return Ok(tcp);
        }
        Ok(Err(error)) => format!("the server cannot be reached: {}", error.kind()),
        Err(_) => format!("the server cannot be reached within {} s", limit.as_secs()),
    };
    log.event(SmtpStepKind::Connect, start, &failure);
    Err(failure)
}

async fn handshake(
    settings: &SmtpSettings,
    tls: &TlsConnector,
    stream: SmtpStream,
    log: &mut StepLog,
) -> Result<SmtpStream, String> {
    let start = Instant::now();
    let name = ServerName::try_from(settings.host.clone()).map_err(|_| "the host is not a host name".to_owned())?;
    let SmtpStream::Plain(tcp) = stream else {
        return Err("the connection is already encrypted".to_owned());
    };
    let limit = settings.timeouts.tls;
    let failure = match timeout(limit, tls.connect(name, tcp)).await {
        Ok(Ok(stream)) => {
            log.event(SmtpStepKind::Tls, start, "encrypted");
            return Ok(SmtpStream::Tls(Box::new(stream)));
        }
        Ok(Err(error)) => format!("TLS failed: {error}"),
        Err(_) => format!("TLS was not established within {} s", limit.as_secs()),
    };
    log.event(SmtpStepKind::Tls, start, &failure);
    Err(failure)
}

/// A connection that is being opened.
struct Opening<'s> {
    wire: SmtpWire,
    settings: &'s SmtpSettings,
    log: &'s mut StepLog,
}

impl Opening<'_> {
    async fn greeting(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let answer = self.wire.read_reply(self.settings.timeouts.greeting).await;
        self.log.answer(SmtpStepKind::Greeting, start, &answer);
        accept("the greeting", answer, 220).map(drop)
    }

    async fn hello(&mut self) -> Result<ServerExtensions, String> {
        let command = format!("EHLO {}\r\n", self.settings.hello_name);
        let reply = self.expect(SmtpStepKind::Hello, &command, 250).await?;
        Ok(ServerExtensions::of(&reply))
    }

    /// Sends a command whose only good answer is `code`.
    async fn expect(&mut self, step: SmtpStepKind, command: &str, code: u16) -> Result<SmtpReply, String> {
        let start = Instant::now();
        let answer = exchange(&mut self.wire, command, self.settings.timeouts.hello).await;
        self.log.answer(step, start, &answer);
        // Only the first word: what follows may be a secret.
        accept(command.split_whitespace().next().unwrap_or_default(), answer, code)
    }

    async fn authenticate(
        &mut self,
        credentials: &SmtpCredentials,
        extensions: &ServerExtensions,
    ) -> Result<(), String> {
        let step = SmtpStepKind::Auth;
        let failed = |_| "the server did not accept the account: check user and password".to_owned();
        let SmtpCredentials { user, password } = credentials;
        if extensions.has_auth_plain {
            let command = format!("AUTH PLAIN {}\r\n", STANDARD.encode(format!("\0{user}\0{password}")));
            return self.expect(step, &command, 235).await.map(drop).map_err(failed);
        }
        if !extensions.has_auth_login {
            return Err("the server offers neither AUTH PLAIN nor AUTH LOGIN".to_owned());
        }
        self.expect(step, "AUTH LOGIN\r\n", 334).await.map_err(failed)?;
        self.expect(step, &format!("{}\r\n", STANDARD.encode(user)), 334).await.map_err(failed)?;
        self.expect(step, &format!("{}\r\n", STANDARD.encode(password)), 235).await.map_err(failed)?;
        Ok(())
    }
}

/// Sends a command and reads its answer.
pub(super) async fn exchange(wire: &mut SmtpWire, command: &str, limit: Duration) -> Result<SmtpReply, WireError> {
    wire.write(command.as_bytes(), limit).await?;
    wire.read_reply(limit).await
}

fn accept(what: &str, answer: Result<SmtpReply, WireError>, code: u16) -> Result<SmtpReply, String> {
    match answer {
        Ok(reply) if reply.code() == code => Ok(reply),
        Ok(reply) => Err(format!("{what} was answered with {} {}", reply.code(), reply.text())),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

impl ServerExtensions {
    fn of(reply: &SmtpReply) -> Self {
        let mut extensions = Self::default();
        for line in reply.further_lines() {
            let line = line.to_ascii_uppercase();
            let mut words = line.split([' ', '=']).filter(|word| !word.is_empty());
            match words.next() {
                Some("SMTPUTF8") => extensions.has_smtputf8 = true,
                Some("8BITMIME") => extensions.has_8bitmime = true,
                Some("PIPELINING") => extensions.has_pipelining = true,
                Some("STARTTLS") => extensions.has_starttls = true,
                Some("SIZE") => {
                    extensions.has_size = true;
                    // Zero means that no limit is declared.
                    extensions.max_bytes = words.next().and_then(|word| word.parse().ok()).filter(|max| *max > 0);
                }
                Some("AUTH") => words.for_each(|mechanism| match mechanism {
                    "PLAIN" => extensions.has_auth_plain = true,
                    "LOGIN" => extensions.has_auth_login = true,
                    _ => {}
                }),
                _ => {}
            }
        }
        extensions
    }
}
