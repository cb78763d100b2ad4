//! Whether a certificate is valid in time.

use x509_parser::prelude::X509Certificate;
use x509_parser::time::ASN1Time;

use crate::World;

/// "The certificate validity period is the period of time from notBefore through notAfter, inclusive" (RFC 5280, 4.1.2.5), in whole
/// seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    not_before: ASN1Time,
    not_after: ASN1Time,
}

impl Validity {
    /// Of the leaf alone: what an issuer's dates mean depends on the chain that a client builds.
    pub fn of(leaf: &X509Certificate<'_>) -> Self {
        Self { not_before: leaf.validity().not_before, not_after: leaf.validity().not_after }
    }

    /// What is wrong now, as the end of a sentence about the Secret. It reads only whether one of the two dates has come, so nothing
    /// else about the time has it computed again.
    pub fn check(self, world: &dyn World) -> Result<(), String> {
        if world.has_come(self.not_after.timestamp().saturating_add(1)) {
            return Err(format!(
                "has a certificate that expired on {}; renew it: until then proxies keep the certificate that they have",
                date(self.not_after)
            ));
        }
        if !world.has_come(self.not_before.timestamp()) {
            return Err(format!(
                "has a certificate that is not valid before {}; use one that is valid now, or set this machine's clock right if it is wrong",
                date(self.not_before)
            ));
        }
        Ok(())
    }
}

/// RFC 3339 in UTC, as Kubernetes writes times.
fn date(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", u8::from(month))
}
