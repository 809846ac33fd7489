// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLS to a server, by rustls: which authorities may vouch for it.

use anyhow::{Context, Result, bail};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use weir_figures::text;

/// Bundles of authorities as Debian, Fedora and Alpine keep them; the first that is there is taken.
const SYSTEM_BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
/// Debian's bundle has 0.2 MB.
const BUNDLE_MAX_BYTES: u64 = 4 << 20;

/// Trusts the authorities in the file, or without one those of the system.
///
/// # Errors
/// There is no such file, or no certificate in it.
pub fn tls_config(authorities: Option<&Path>) -> Result<TlsConfig> {
    let path = match authorities {
        Some(path) => path,
        None => system_bundle().with_context(|| {
            format!(
                "no certificates of authorities are here ({}), so no server can be trusted: install the package \
                 ca-certificates, or give --push-ca-file",
                SYSTEM_BUNDLES.join(", ")
            )
        })?,
    };
    let certificates = certificates(path)?;
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(RootCerts::from(certificates))
        .build())
}

fn system_bundle() -> Option<&'static Path> {
    let paths = SYSTEM_BUNDLES.iter().map(Path::new);
    paths.into_iter().find(|path| path.is_file())
}

/// Those that rustls can use; at least one.
fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let shown = text::harmless(&path.to_string_lossy());
    let file = weir_files::open_regular(path)
        .with_context(|| format!("cannot read the certificates in {shown}"))?;
    let mut bytes = Vec::new();
    file.take(BUNDLE_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read the certificates in {shown}"))?;
    if bytes.len() as u64 > BUNDLE_MAX_BYTES {
        bail!(
            "{shown} is longer than {BUNDLE_MAX_BYTES} bytes: give a file with fewer certificates"
        );
    }
    let found = parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let usable: Vec<_> = found.filter(is_usable).collect();
    if usable.is_empty() {
        bail!(
            "{shown} has no certificate of an authority: it must be PEM, as the authority gave it"
        );
    }
    Ok(usable)
}

fn is_usable(certificate: &Certificate<'static>) -> bool {
    let mut store = RootCertStore::empty();
    store.add(CertificateDer::from(certificate.der())).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8]) -> Result<usize, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, bytes).unwrap();
        let found = certificates(&path).map(|all| all.len());
        found.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn certificates_are_taken_and_everything_else_is_left() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a.example".into()]).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        assert_eq!(told(pem.as_bytes()), Ok(1));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let mixed = format!("{broken}{}words\n{pem}", key.serialize_pem());
        assert_eq!(told(mixed.as_bytes()), Ok(1));
        for nothing in [
            &b""[..],
            b"\xff\0",
            broken.as_bytes(),
            key.serialize_pem().as_bytes(),
        ] {
            let error = told(nothing).expect_err("taken");
            assert!(error.contains("no certificate of an authority"), "{error}");
        }
        let long = "\n".repeat(usize::try_from(BUNDLE_MAX_BYTES + 1).unwrap());
        assert!(
            told(long.as_bytes())
                .expect_err("taken")
                .contains("fewer certificates")
        );
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = tls_config(Some(dir.path())).map(drop).unwrap_err();
        assert!(
            format!("{error:#}").contains("it is a directory"),
            "{error:#}"
        );
        let missing = dir.path().join("missing");
        let error = tls_config(Some(&missing)).map(drop).unwrap_err();
        assert!(format!("{error:#}").contains("missing"), "{error:#}");
    }
}
