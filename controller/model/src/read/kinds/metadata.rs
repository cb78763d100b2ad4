//! `metadata`: what Portolan uses of it. The rest is Kubernetes' own affair.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::schema::{Fields, Pattern, Text};
use super::forms::SUBDOMAIN_PATTERN;
use crate::objects::Bookkeeping;
use crate::{Kind, Name, NamespacedName};

pub(super) struct Metadata {
    pub name: NamespacedName,
    /// Seconds since the epoch
    pub created: i64,
    pub labels: BTreeMap<Name, Name>,
    pub bookkeeping: Bookkeeping,
}

static NAME: Text = Text::formed(1, 253, &SUBDOMAIN_PATTERN);
/// Empty is as good as not given.
pub(super) static NAMESPACE_PATTERN: Pattern = Pattern::new(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    "a namespace: lower-case letters, digits and `-`, not at the ends",
);
static NAMESPACE: Text = Text::formed(0, 63, &NAMESPACE_PATTERN);

/// kubectl's copy of the whole object, of no use beside the object itself
pub(in crate::read) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// From the fields of the object as a whole. Without a kind (one that Portolan does not read) nothing is made up.
pub(super) fn read(fields: &mut Fields<'_>, kind: Option<Kind>) -> Metadata {
    let (namespaced, cluster_scoped) =
        (kind.is_some_and(|kind| !kind.is_cluster_scoped()), kind.is_some_and(Kind::is_cluster_scoped));
    fields.required("metadata", |reader, node| {
        reader.part_of_object(node, |fields| {
            let name = fields.required_text("name", &NAME);
            let mut namespace = fields.text("namespace", &NAMESPACE).filter(|namespace| !namespace.is_empty());
            if cluster_scoped && namespace.take().is_some() {
                fields.warn("namespace", "objects of this kind have no namespace: ignored");
            }
            let namespace = namespace.unwrap_or_else(|| Arc::from(if namespaced { "default" } else { "" }));
            let created = fields.text("creationTimestamp", &Text::ANY);
            let created = created.and_then(|text| {
                let seconds = seconds_since_epoch(&text);
                if seconds.is_none() {
                    fields.refuse("creationTimestamp", "must be a time such as 2026-01-31T12:00:00Z");
                }
                seconds
            });
            let annotations = fields.text_map("annotations", usize::MAX, &Text::ANY);
            Metadata {
                name: NamespacedName { namespace, name },
                created: created.unwrap_or_default(),
                labels: fields.text_map("labels", usize::MAX, &Text::ANY),
                bookkeeping: Bookkeeping {
                    uid: fields.text("uid", &Text::ANY),
                    resource_version: fields.text("resourceVersion", &Text::ANY),
                    generation: fields.integer("generation", 0..=i64::MAX).unwrap_or_default(),
                    annotations: annotations.into_iter().filter(|(key, _)| &**key != LAST_APPLIED).collect(),
                },
            }
        })
    })
}

pub(super) static TIME: Pattern = Pattern::new(
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[-+][0-9]{2}:[0-9]{2})$",
    "a time such as 2026-01-31T12:00:00Z",
);

/// RFC 3339, whole seconds.
fn seconds_since_epoch(text: &str) -> Option<i64> {
    if !TIME.is_match(text) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let offset = if text.ends_with(['Z', 'z']) {
        0
    } else {
        let offset = text.get(text.len().checked_sub(6)?..)?;
        let minutes = offset.get(1..3)?.parse::<i64>().ok()? * 60 + offset.get(4..6)?.parse::<i64>().ok()?;
        if offset.starts_with('-') { -minutes * 60 } else { minutes * 60 }
    };
    // Years that start in March put the leap day at the end: then months have fixed lengths, 153 days in five of them.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second - offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00Z", Some(951_825_600)),
            ("2026-11-30T15:56:23Z", Some(1_796_054_183)),
            ("2026-11-30T15:56:23.5+01:00", Some(1_796_050_583)),
            ("2026-13-01T00:00:00Z", None),
            ("yesterday", None),
        ] {
            assert_eq!(seconds_since_epoch(text), expected, "{text}");
        }
    }
}
