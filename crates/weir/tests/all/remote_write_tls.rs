// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remote write to a server behind TLS, with certificates made here: figures and token go only to a server
//! that an authority of `--push-ca-file` vouches for.

use crate::world::{World, wait};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::Signal;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// An authority of this test alone.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A server's settings, with a certificate for that name or address.
    fn server(&self, name: &str) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.into()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Arc::new(config)
    }
}

/// Answers each request with 204, and hands its bytes over. What comes in no handshake is not a request.
fn serve(config: Arc<ServerConfig>) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            if let Some(request) = request(stream.unwrap(), &config) {
                let _ = send.send(request);
            }
        }
    });
    (address, requests)
}

fn request(stream: TcpStream, config: &Arc<ServerConfig>) -> Option<Vec<u8>> {
    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).ok()?;
        if count == 0 {
            return None;
        }
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        let Some((head, _)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|l| l.strip_prefix("content-length: "));
        let length: usize = length.unwrap().trim().parse().unwrap();
        if bytes.len() >= head.len() + 4 + length {
            break;
        }
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()?;
    Some(bytes)
}

fn trouble(world: &World) -> Option<String> {
    let text = fs::read_to_string(world.path("run/weir/snapshot.json")).unwrap_or_default();
    let snapshot: Value = serde_json::from_str(&text).unwrap_or_default();
    snapshot["push"]["trouble"].as_str().map(str::to_owned)
}

/// Pushes to a server with a certificate for `name`, trusting `trusted`; gives the requests and the log. Ends
/// when there is a request, or trouble.
fn pushed(name: &str, signer: &Authority, trusted: &Authority) -> (Vec<Vec<u8>>, String) {
    let world = World::new();
    let (address, requests) = serve(signer.server(name));
    let (ca, token) = (world.path("ca.pem"), world.path("token"));
    fs::write(&ca, trusted.0.pem()).unwrap();
    fs::write(&token, "secret-of-the-test\n").unwrap();
    fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let url = format!("https://{address}/api/v1/write");
    let daemon = world.start(&[
        "run",
        "--push",
        &url,
        "--push-format=remote-write",
        "--push-interval=1s",
        "--push-ca-file",
        ca.to_str().unwrap(),
        "--push-token-file",
        token.to_str().unwrap(),
    ]);
    let mut arrived = Vec::new();
    wait("a request or trouble", &mut || {
        arrived.extend(requests.try_iter());
        !arrived.is_empty() || trouble(&world).is_some()
    });
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    arrived.extend(requests.try_iter());
    (arrived, ended.stderr)
}

#[test]
fn a_trusted_server_gets_figures_and_token() {
    let authority = Authority::new();
    let (requests, said) = pushed("127.0.0.1", &authority, &authority);
    let head = String::from_utf8_lossy(&requests[0]).to_lowercase();
    assert!(
        head.starts_with("post /api/v1/write http/1.1\r\n"),
        "{head}"
    );
    for header in [
        "authorization: bearer secret-of-the-test",
        "content-encoding: snappy",
        "content-type: application/x-protobuf",
        "x-prometheus-remote-write-version: 0.1.0",
    ] {
        assert!(
            head.contains(&format!("\r\n{header}\r\n")),
            "{header}: {head}"
        );
    }
    assert!(said.contains("pushes to https://127.0.0.1:"), "{said}");
    assert!(!said.contains("secret-of-the-test"), "{said}");
}

#[test]
fn a_server_of_another_authority_gets_nothing() {
    let (requests, said) = pushed("127.0.0.1", &Authority::new(), &Authority::new());
    assert!(requests.is_empty());
    assert!(said.contains("invalid peer certificate"), "{said}");
    assert!(!said.contains("secret-of-the-test"), "{said}");
}

#[test]
fn a_server_of_another_name_gets_nothing() {
    let authority = Authority::new();
    let (requests, said) = pushed("other.example", &authority, &authority);
    assert!(requests.is_empty());
    assert!(said.contains("invalid peer certificate"), "{said}");
}
