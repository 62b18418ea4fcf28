//! Mail by SMTP.

use super::{SendError, WITHIN, secret, url};
use crate::message::Delivery;
use config::TargetSettings;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::{Message, SmtpTransport, Transport};

pub(super) fn send(target: &TargetSettings, delivery: &Delivery) -> Result<(), SendError> {
    let mailbox = |address: &String| {
        let wrong = |error| SendError::permanent(format!("`{address}` is not an address of mail: {error}"));
        address.parse::<Mailbox>().map_err(wrong)
    };
    let mut mail = Message::builder().subject(&delivery.title).header(ContentType::TEXT_PLAIN);
    if let Some(address) = &target.from {
        mail = mail.from(mailbox(address)?);
    }
    for address in &target.to {
        mail = mail.to(mailbox(address)?);
    }
    let body = delivery.body.clone();
    let mail = mail.body(body).map_err(|error| SendError::permanent(format!("the mail is not valid: {error}")))?;
    let invalid = |error| SendError::permanent(format!("the url is not valid: {error}"));
    let mut transport = SmtpTransport::from_url(&url(target)?).map_err(invalid)?.timeout(Some(WITHIN));
    if let (Some(user), Some(path)) = (&target.user, &target.password_file) {
        transport = transport.credentials(Credentials::new(user.clone(), secret(path)?));
    }
    match transport.build().send(&mail) {
        Ok(_) => Ok(()),
        Err(error) if error.is_permanent() => {
            Err(SendError::permanent(format!("{error}; next: check user, password and addresses")))
        }
        Err(error) => Err(SendError::passing(format!("{error}; next: check that the mail server runs, and the url"))),
    }
}
