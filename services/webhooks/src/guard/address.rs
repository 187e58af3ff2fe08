//! Addresses that are not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// (network, prefix length, description).
const V4: &[([u8; 4], u32, &str)] = &[
    ([0, 0, 0, 0], 8, "unspecified"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "in the shared address space of a provider"),
    ([127, 0, 0, 0], 8, "a loopback address"),
    ([168, 63, 129, 16], 32, "an internal address of a cloud"),
    ([169, 254, 0, 0], 16, "link-local"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "reserved"),
    ([192, 0, 2, 0], 24, "reserved for documentation"),
    ([192, 88, 99, 0], 24, "reserved"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "reserved for benchmarks"),
    ([198, 51, 100, 0], 24, "reserved for documentation"),
    ([203, 0, 113, 0], 24, "reserved for documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// The only IPv6 range that is allocated for the public internet.
const V6_PUBLIC: (u128, u32) = (0x2000 << 112, 3);
/// The parts of that range that are not public; some of them embed IPv4 addresses.
const V6: &[(u128, u32, &str)] = &[
    (0x2001 << 112, 23, "reserved"),
    (0x2001_0db8 << 96, 32, "reserved for documentation"),
    (0x2002 << 112, 16, "an embedded IPv4 address"),
    (0x3fff << 112, 20, "reserved for documentation"),
];

/// Returns what kind of address `ip` is if it is not public; `None` for a public address. `ip` must not be an IPv4-mapped IPv6 address.
pub(super) fn reserved(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => reserved_v4(ip),
        IpAddr::V6(ip) => reserved_v6(ip),
    }
}

fn reserved_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(ip);
    V4.iter().find(|(net, len, _)| (bits ^ u32::from_be_bytes(*net)) >> (32 - len) == 0).map(|(_, _, kind)| *kind)
}

fn reserved_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let bits = u128::from(ip);
    let within = |net: u128, len: u32| (bits ^ net) >> (128 - len) == 0;
    if !within(V6_PUBLIC.0, V6_PUBLIC.1) {
        return Some("private or reserved");
    }
    V6.iter().find(|(net, len, _)| within(*net, *len)).map(|(_, _, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use crate::guard::Networks;
    use std::net::IpAddr;

    fn is_refused(address: &str) -> bool {
        let ip: IpAddr = address.parse().expect("an address");
        Networks::default().check(ip).is_err()
    }

    #[test]
    fn addresses_that_are_not_public_are_refused() {
        let all = "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 100.100.100.200 127.0.0.1 127.255.255.254
            168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1
            198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.7 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
            :: ::1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 100::1 2001:db8::1 2001::1 2001:10::1 3fff::1";
        for address in all.split_whitespace() {
            assert!(is_refused(address), "{address}");
        }
    }

    #[test]
    fn an_ipv4_address_embedded_in_an_ipv6_address_is_refused() {
        let all =
            "::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::127.0.0.1
            64:ff9b::8.8.8.8 64:ff9b:1::10.0.0.1 2002:7f00:1::1 2002:a00:1::1 2002:808:808::1 2001:0:a00:1::1";
        for address in all.split_whitespace() {
            assert!(is_refused(address), "{address}");
        }
    }

    #[test]
    fn public_addresses_are_allowed_even_next_to_reserved_ranges() {
        let all = "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 168.63.129.15
            169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.1 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0
            223.255.255.255 ::ffff:8.8.8.8 2606:4700::1111 2a00:1450::1 2001:200::1 2003::1 3ffe::1";
        for address in all.split_whitespace() {
            assert!(!is_refused(address), "{address}");
        }
    }
}
