//! A mail server for tests: SMTP, without and with TLS, and with a login.

use crate::support::notify::serving;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// When a connection is encrypted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Security {
    Never,
    /// After STARTTLS.
    OnRequest,
    Always,
}

/// A mail server; whoever logs in as flowcon with this password, may send over TLS.
#[derive(Clone)]
pub struct MailServer {
    pub port: u16,
    security: Security,
    tls: Option<Arc<ServerConfig>>,
    /// The mails that it accepted.
    pub mails: Arc<Mutex<Vec<String>>>,
    /// The commands that it got before a connection was encrypted.
    pub in_clear: Arc<Mutex<Vec<String>>>,
}

/// flowcon and secret, as in `AUTH PLAIN`.
const LOGIN: &str = "AUTH PLAIN AGZsb3djb24Ac2VjcmV0";

/// Makes a certificate for `localhost` in the folder, and returns its file; the key is beside it.
pub fn certificate(folder: &Path) -> PathBuf {
    let (config, certificate, key) = (folder.join("tls.cnf"), folder.join("tls.pem"), folder.join("tls.key"));
    let text = "[req]\ndistinguished_name = name\nx509_extensions = of\nprompt = no\n[name]\nCN = localhost\n\
                [of]\nbasicConstraints = CA:FALSE\nsubjectAltName = DNS:localhost\n";
    fs::write(&config, text).unwrap();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    let made =
        openssl.arg("-config").arg(config).arg("-out").arg(&certificate).arg("-keyout").arg(key).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    certificate
}

impl MailServer {
    /// Starts a server without TLS.
    pub fn start() -> MailServer {
        MailServer::start_with(Security::Never, None)
    }

    /// Starts a server with this certificate.
    pub fn start_secured(security: Security, certificate: &Path) -> MailServer {
        let chain = CertificateDer::pem_file_iter(certificate).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(certificate.with_extension("key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = versions.with_no_client_auth().with_single_cert(chain, key).unwrap();
        MailServer::start_with(security, Some(Arc::new(config)))
    }

    fn start_with(security: Security, tls: Option<Arc<ServerConfig>>) -> MailServer {
        serving(
            |port| MailServer { port, security, tls, mails: Arc::default(), in_clear: Arc::default() },
            |server, stream| _ = server.serve(stream),
        )
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        if self.security != Security::Always {
            stream.write_all(b"220 test\r\n")?;
            if !self.talk(BufReader::new(&stream), &stream, false)? {
                return Ok(());
            }
        }
        let config = self.tls.clone().expect("it has TLS");
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        let stream = Mutex::new(StreamOwned::new(connection, stream));
        if self.security == Security::Always {
            Half(&stream).write_all(b"220 test\r\n")?;
        }
        self.talk(BufReader::new(Half(&stream)), Half(&stream), true).map(drop)
    }

    /// Answers until the end of the connection, or until TLS is to begin: true.
    fn talk(&self, reader: impl BufRead, mut out: impl Write, is_encrypted: bool) -> io::Result<bool> {
        let (mut mail, mut is_data, mut may_send) = (String::new(), false, self.security == Security::Never);
        for line in reader.lines() {
            let line = line?;
            if !is_encrypted {
                self.in_clear.lock().unwrap().push(line.clone());
            }
            let answer = match line.as_str() {
                "." if is_data => {
                    self.mails.lock().unwrap().push(std::mem::take(&mut mail));
                    is_data = false;
                    "250 kept"
                }
                _ if is_data => {
                    mail.push_str(&(line + "\n"));
                    continue;
                }
                "STARTTLS" if self.security == Security::OnRequest && !is_encrypted => {
                    out.write_all(b"220 go on\r\n")?;
                    return Ok(true);
                }
                hello if hello.starts_with("EHLO") => match (self.security, is_encrypted) {
                    (Security::OnRequest, false) => "250-localhost\r\n250 STARTTLS",
                    (_, true) => "250-localhost\r\n250 AUTH PLAIN",
                    _ => "250 localhost",
                },
                login if login.starts_with("AUTH") => {
                    may_send = login == LOGIN;
                    if may_send { "235 welcome" } else { "535 wrong password" }
                }
                "QUIT" => {
                    out.write_all(b"221 bye\r\n")?;
                    return Ok(false);
                }
                "DATA" if may_send => {
                    is_data = true;
                    "354 go on"
                }
                _ if may_send => "250 ok",
                _ => "530 log in first",
            };
            out.write_all(format!("{answer}\r\n").as_bytes())?;
            out.flush()?;
        }
        Ok(false)
    }
}

/// One direction of an encrypted connection, of which only one is used at a time.
struct Half<'a>(&'a Mutex<StreamOwned<ServerConnection, TcpStream>>);

impl Read for Half<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.lock().unwrap().read(buffer)
    }
}

impl Write for Half<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().flush()
    }
}
