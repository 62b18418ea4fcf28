//! The certificate that Swarm gives each node: who this node is, and who may speak with it.
//!
//! Swarm renews certificates, and a rotation of the root shows two roots for a while: files are read again when they change. A manager's
//! key file has headers of Swarm's own before the key, which are skipped; the key is never logged. Imports: model.

use crate::model::swarm::NodeId;
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

/// What Swarm writes into a manager's certificate.
const MANAGER: &str = "swarm-manager";
/// A certificate or key file is never larger.
const FILE_AT_MOST: u64 = 1024 * 1024;

/// Why there is no certificate to work with.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{path}: cannot read it: {source}; run as root, on a node of a Swarm")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The Swarm is locked with a key of its own.
    #[error(
        "{path}: the key is encrypted, because the Swarm is locked (autolock); give certificate, key and authority in [agent] of \
         flowcoord.toml, issued for the same names, or `docker swarm update --autolock=false`"
    )]
    Encrypted {
        /// Which file.
        path: PathBuf,
    },
    /// A file has something else in it.
    #[error("{path}: {what}")]
    Odd {
        /// Which file.
        path: PathBuf,
        /// What was not understood.
        what: String,
    },
    /// The three do not belong together.
    #[error("certificate, key and authority do not fit together: {0}")]
    Misfit(String),
}

/// Where certificate, key and authority lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    authority: PathBuf,
}

/// A node, by its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The Swarm's id.
    pub cluster: Arc<str>,
    /// The node's id.
    pub node: NodeId,
    /// What it is in its Swarm.
    pub role: Role,
}

/// What a node is in its Swarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It may ask agents.
    Manager,
    /// It may not.
    Worker,
}

/// This node's certificate with its key, and who signs those of its Swarm.
pub struct Identity {
    /// Who this node is.
    pub own: Peer,
    /// From when to when its certificate holds, in seconds since 1970.
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
    /// Those that the engine with this data folder has from its Swarm.
    pub fn of_swarm(data: &Path) -> Certificates {
        let folder = data.join("swarm/certificates");
        Certificates {
            certificate: folder.join("swarm-node.crt"),
            key: folder.join("swarm-node.key"),
            authority: folder.join("swarm-root-ca.crt"),
        }
    }

    /// Those of a PKI of one's own, with the names that Swarm's have.
    pub fn of_files(certificate: PathBuf, key: PathBuf, authority: PathBuf) -> Certificates {
        Certificates { certificate, key, authority }
    }

    /// Changes when one of the files does.
    pub fn stamp(&self) -> [Option<(SystemTime, u64)>; 3] {
        [&self.certificate, &self.key, &self.authority].map(|path| {
            let file = fs::metadata(path).ok()?;
            Some((file.modified().ok()?, file.len()))
        })
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Which file, and what to do.
    pub fn load(&self) -> Result<Identity, CertificateError> {
        let odd = |path: &Path, what: String| CertificateError::Odd { path: path.to_owned(), what };
        let chain = certificates(&self.certificate)?;
        let own = chain.first().ok_or_else(|| odd(&self.certificate, "there is no certificate in it".to_owned()))?;
        let valid = validity(own).map_err(|what| odd(&self.certificate, what))?;
        let own = peer_of(own).map_err(|what| odd(&self.certificate, what))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.authority)? {
            roots.add(root).map_err(|error| odd(&self.authority, error.to_string()))?;
        }
        let text = text(&self.key)?;
        if text.contains("ENCRYPTED") {
            return Err(CertificateError::Encrypted { path: self.key.clone() });
        }
        // What the parser says of a key is not told: it might quote it.
        let key = PrivateKeyDer::from_pem_slice(without_headers(&text).as_bytes())
            .map_err(|_| odd(&self.key, "there is no key in it that can be read".to_owned()))?;
        Ok(Identity { own, valid, chain, key, roots: Arc::new(roots) })
    }
}

impl Identity {
    /// For a server that lets only nodes of this Swarm speak.
    ///
    /// # Errors
    /// Certificate and key do not belong together.
    pub fn server(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let misfit = |error: &dyn fmt::Display| CertificateError::Misfit(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider.clone());
        let verifier = verifier.build().map_err(|error| misfit(&error))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| misfit(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| misfit(&error))?;
        Ok(Arc::new(server))
    }

    /// For a client that speaks only with nodes of this Swarm; the node's id is the server's name.
    ///
    /// # Errors
    /// Certificate and key do not belong together.
    pub fn client(&self) -> Result<Arc<ClientConfig>, CertificateError> {
        let misfit = |error: &dyn fmt::Display| CertificateError::Misfit(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(self.roots.clone(), provider.clone());
        let verifier = verifier.build().map_err(|error| misfit(&error))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| misfit(&error))?
            .with_webpki_verifier(verifier)
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| misfit(&error))?;
        Ok(Arc::new(client))
    }
}

/// Who a certificate is for, by the names that Swarm writes into it.
///
/// # Errors
/// What it lacks.
pub fn peer_of(certificate: &CertificateDer<'_>) -> Result<Peer, String> {
    let certificate = parsed(certificate)?;
    let subject = certificate.subject();
    let first = |name: &str, value: Option<&str>| {
        value.map(Arc::<str>::from).ok_or_else(|| format!("the certificate names no {name}: it is not one of a Swarm"))
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
    let read = read.map_err(|error| CertificateError::Odd { path: path.to_owned(), what: error.to_string() })?;
    match read.is_empty() {
        true => Err(CertificateError::Odd { path: path.to_owned(), what: "there is no certificate in it".to_owned() }),
        false => Ok(read),
    }
}

fn text(path: &Path) -> Result<String, CertificateError> {
    let unreadable = |source| CertificateError::Unreadable { path: path.to_owned(), source };
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_AT_MOST {
        let what = format!("{length} bytes are no certificate or key");
        return Err(CertificateError::Odd { path: path.to_owned(), what });
    }
    fs::read_to_string(path).map_err(unreadable)
}

/// PEM as parsers know it: without lines such as `kek-version: 0` after the first.
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

    /// A node's certificate of one authority, which lives for so many days; with 0 it has expired after a second.
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
    fn an_expired_certificate_is_refused_on_both_sides() {
        let folder = tempfile::tempdir().expect("a folder");
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
    fn the_headers_of_a_managers_key_are_skipped() {
        let pem = "-----BEGIN PRIVATE KEY-----\nkek-version: 0\nraft-dek: Cg==\n\nMIGH\n-----END PRIVATE KEY-----\n";
        assert_eq!(without_headers(pem), "-----BEGIN PRIVATE KEY-----\n\nMIGH\n-----END PRIVATE KEY-----\n");
    }
}
