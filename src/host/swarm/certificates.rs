//! The certificate that Swarm issues for each node: the identity of this node, and the verification of its peers.
//!
//! Swarm renews certificates, and a rotation of the root CA temporarily yields two roots, so files are read again when they change. The key
//! file of a manager has Swarm-specific headers before the key, which are skipped. The key is never logged.

use model::swarm::NodeId;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The role in a manager's certificate.
const MANAGER: &str = "swarm-manager";
/// Maximum size of a certificate or key file, in bytes.
const FILE_AT_MOST: u64 = 1024 * 1024;

/// A certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{path}: cannot read the file: {source}; run as root, on a node of a Swarm")]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The key is encrypted, because the Swarm is locked.
    #[error(
        "{path}: the key is encrypted, because the Swarm is locked (autolock); set certificate, key and authority in [agent] of \
         flowcoord.toml, issued for the same names, or run `docker swarm update --autolock=false`"
    )]
    Encrypted {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file has unexpected content.
    #[error("{path}: {what}")]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Certificate, key and authority do not belong together.
    #[error("certificate, key and authority do not match: {0}")]
    Misfit(String),
}

/// Paths of certificate, key and authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    authority: PathBuf,
}

/// The identity of a node according to its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Id of the Swarm.
    pub cluster: Arc<str>,
    /// Id of the node.
    pub node: NodeId,
    /// Its role.
    pub role: Role,
}

/// Role of a node in its Swarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A manager, which may send requests to agents.
    Manager,
    /// A worker, which may not.
    Worker,
}

/// The certificate and key of this node, and the authority of its Swarm.
pub struct Identity {
    /// Identity of this node.
    pub own: Peer,
    /// Validity of its certificate, in seconds since 1970.
    pub valid: Range<i64>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:?})", self.own)
    }
}

impl Certificates {
    /// Returns the certificates that Swarm issued to the engine with this data directory.
    pub fn of_swarm(data: &Path) -> Certificates {
        let directory = data.join("swarm/certificates");
        Certificates {
            certificate: directory.join("swarm-node.crt"),
            key: directory.join("swarm-node.key"),
            authority: directory.join("swarm-root-ca.crt"),
        }
    }

    /// Returns certificates of a separate PKI, with the same names as those of Swarm.
    pub fn of_files(certificate: PathBuf, key: PathBuf, authority: PathBuf) -> Certificates {
        Certificates { certificate, key, authority }
    }

    /// Returns a value that changes when one of the files changes.
    pub fn stamp(&self) -> [Option<(SystemTime, u64)>; 3] {
        [&self.certificate, &self.key, &self.authority].map(|path| {
            let file = fs::metadata(path).ok()?;
            Some((file.modified().ok()?, file.len()))
        })
    }

    /// Reads the files.
    ///
    /// # Errors
    /// The file, and what to do.
    pub fn load(&self) -> Result<Identity, CertificateError> {
        let invalid = |path: &Path, what: String| CertificateError::Invalid { path: path.to_owned(), what };
        let chain = certificates(&self.certificate)?;
        let own = chain.first().ok_or_else(|| invalid(&self.certificate, "no certificate found".to_owned()))?;
        let valid = validity(own).map_err(|what| invalid(&self.certificate, what))?;
        let own = peer_of(own).map_err(|what| invalid(&self.certificate, what))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.authority)? {
            roots.add(root).map_err(|error| invalid(&self.authority, error.to_string()))?;
        }
        let text = text(&self.key)?;
        if text.contains("ENCRYPTED") {
            return Err(CertificateError::Encrypted { path: self.key.clone() });
        }
        // The message of the parser is dropped, because it might quote the key.
        let key = PrivateKeyDer::from_pem_slice(without_headers(&text).as_bytes())
            .map_err(|_| invalid(&self.key, "no readable key found".to_owned()))?;
        Ok(Identity { own, valid, chain, key, roots: Arc::new(roots) })
    }
}

impl Identity {
    /// Returns the configuration of a server that accepts only nodes of this Swarm.
    ///
    /// # Errors
    /// Certificate and key do not belong together.
    pub fn server(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let mismatch = |error: &dyn fmt::Display| CertificateError::Misfit(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider.clone());
        let verifier = verifier.build().map_err(|error| mismatch(&error))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| mismatch(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| mismatch(&error))?;
        Ok(Arc::new(server))
    }

    /// Returns the configuration of a client that accepts only nodes of this Swarm; the node's id is the server name.
    ///
    /// # Errors
    /// Certificate and key do not belong together.
    pub fn client(&self) -> Result<Arc<ClientConfig>, CertificateError> {
        let mismatch = |error: &dyn fmt::Display| CertificateError::Misfit(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(self.roots.clone(), provider.clone());
        let verifier = verifier.build().map_err(|error| mismatch(&error))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| mismatch(&error))?
            .with_webpki_verifier(verifier)
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| mismatch(&error))?;
        Ok(Arc::new(client))
    }
}

/// Parses the identity from the names that Swarm writes into a certificate.
///
/// # Errors
/// The missing name.
pub fn peer_of(certificate: &CertificateDer<'_>) -> Result<Peer, String> {
    let certificate = parsed(certificate)?;
    let subject = certificate.subject();
    let first = |name: &str, value: Option<&str>| {
        value
            .map(Arc::<str>::from)
            .ok_or_else(|| format!("the certificate has no {name}: it was not issued by a Swarm"))
    };
    let cluster = subject.iter_organization().next().and_then(|name| name.as_str().ok());
    let node = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
    let role = subject.iter_organizational_unit().next().and_then(|name| name.as_str().ok());
    Ok(Peer {
        cluster: first("cluster (O)", cluster)?,
        node: NodeId(first("node (CN)", node)?),
        role: if first("role (OU)", role)?.as_ref() == MANAGER { Role::Manager } else { Role::Worker },
    })
}

fn validity(certificate: &CertificateDer<'_>) -> Result<Range<i64>, String> {
    let valid = parsed(certificate)?.validity().clone();
    Ok(valid.not_before.timestamp()..valid.not_after.timestamp())
}

fn parsed<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    let parsed = X509Certificate::from_der(certificate);
    parsed.map(|(_, certificate)| certificate).map_err(|error| format!("the certificate cannot be read: {error}"))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let text = text(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let read = read.map_err(|error| CertificateError::Invalid { path: path.to_owned(), what: error.to_string() })?;
    match read.is_empty() {
        true => Err(CertificateError::Invalid { path: path.to_owned(), what: "no certificate found".to_owned() }),
        false => Ok(read),
    }
}

fn text(path: &Path) -> Result<String, CertificateError> {
    let unreadable = |source| CertificateError::Unreadable { path: path.to_owned(), source };
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_AT_MOST {
        let what = format!("{length} bytes are too many for a certificate or key");
        return Err(CertificateError::Invalid { path: path.to_owned(), what });
    }
    fs::read_to_string(path).map_err(unreadable)
}

/// Removes headers such as `kek-version: 0`, which PEM parsers do not support.
fn without_headers(pem: &str) -> String {
    pem.lines()
        .filter(|line| line.starts_with("-----") || !line.contains(':'))
        .fold(String::new(), |all, line| all + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, ServerConnection};

    /// Issues a node certificate of one authority, valid for this number of days; with 0 it expires after a second.
    fn issued(folder: &Path, days: &str) -> Identity {
        let openssl = |arguments: &str| {
            let made = std::process::Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
            let made = made.expect("openssl");
            assert!(made.status.success(), "{arguments}: {}", String::from_utf8_lossy(&made.stderr));
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        if !folder.join("ca.crt").exists() {
            openssl(&format!("req -x509 {key} -days 2 -subj /O=c/CN=ca -keyout ca.key -out ca.crt"));
        }
        let names = "-subj /O=c/OU=swarm-manager/CN=n -addext subjectAltName=DNS:n,DNS:swarm-manager";
        openssl(&format!("req -new {key} {names} -keyout {days}.key -out {days}.csr"));
        openssl(&format!(
            "x509 -req -in {days}.csr -CA ca.crt -CAkey ca.key -days {days} -copy_extensions copyall -out {days}.crt"
        ));
        let file = |name: &str| folder.join(name);
        let files = Certificates::of_files(file(&format!("{days}.crt")), file(&format!("{days}.key")), file("ca.crt"));
        files.load().expect("loaded")
    }

    fn handshake(server: &Identity, client: &Identity) -> Result<(), rustls::Error> {
        let name = ServerName::try_from("n").expect("a name");
        let mut client = ClientConnection::new(client.client().expect("a client"), name)?;
        let mut server = ServerConnection::new(server.server().expect("a server"))?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("a Vec takes everything");
            server.read_tls(&mut bytes.as_slice()).expect("read");
            server.process_new_packets()?;
            bytes.clear();
            server.write_tls(&mut bytes).expect("a Vec takes everything");
            client.read_tls(&mut bytes.as_slice()).expect("read");
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn an_expired_certificate_is_rejected_on_both_sides() {
        let folder = tempfile::tempdir().expect("a directory");
        let (valid, expired) = (issued(folder.path(), "1"), issued(folder.path(), "0"));
        assert_eq!(valid.valid.end - valid.valid.start, 86_400);
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
        while now() <= u64::try_from(expired.valid.end).expect("after 1970") {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert_eq!(handshake(&valid, &valid), Ok(()));
        for (server, client) in [(&expired, &valid), (&valid, &expired)] {
            let error = handshake(server, client).expect_err("expired").to_string();
            assert!(error.contains("expired"), "{error}");
        }
    }

    #[test]
    fn headers_in_the_key_of_a_manager_are_skipped() {
        let pem = "-----BEGIN PRIVATE KEY-----\nkek-version: 0\nraft-dek: Cg==\n\nMIGH\n-----END PRIVATE KEY-----\n";
        assert_eq!(without_headers(pem), "-----BEGIN PRIVATE KEY-----\n\nMIGH\n-----END PRIVATE KEY-----\n");
    }
}
