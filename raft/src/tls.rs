//! Encryption between sites: each shows a certificate of the cluster's authority to the other.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::error::{LogError, Result};

/// Files in PEM with which both sides of a connection show who they are.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The authority of the cluster. Whoever has a certificate of it is a peer.
    pub authority: PathBuf,
    /// The certificate of this site; it has the names or addresses that peers connect to.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What those files say, for both ends of a connection.
pub struct Tls {
    pub client: Arc<ClientConfig>,
    pub server: Arc<ServerConfig>,
}

impl Tls {
    pub fn load(files: &TlsFiles) -> Result<Self> {
        let cannot = |what: &str, path: &PathBuf, error: &dyn std::fmt::Display| {
            LogError::Refused(format!("{}: cannot read {what}: {error}", path.display()))
        };
        let certificates = |path: &PathBuf| -> Result<Vec<CertificateDer<'static>>> {
            let read = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
            match read {
                Ok(found) if found.is_empty() => Err(cannot("a certificate", path, &"it has none")),
                Ok(found) => Ok(found),
                Err(error) => Err(cannot("a certificate", path, &error)),
            }
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.authority)? {
            roots.add(certificate).map_err(|error| cannot("the authority", &files.authority, &error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&files.certificate)?;
        let key = || {
            PrivateKeyDer::from_pem_file(&files.key).map_err(|error| cannot("the key", &files.key, &error))
        };
        let unfit =
            |error: &dyn std::fmt::Display| cannot("the certificate of this site", &files.certificate, error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| cannot("the authority", &files.authority, &error))?;
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key()?)
            .map_err(|error| unfit(&error))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key()?)
            .map_err(|error| unfit(&error))?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }
}
