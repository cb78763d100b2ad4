//! HTTPRoute.

use super::super::Channel;
use super::super::document::Node;
use super::super::schema::{Fields, Reader};
use super::forms::{HOSTNAME, SECTION_NAME};
use super::{http_filter, http_match, references, retry, session_persistence};
use crate::objects::{BackendRef, HttpFilter, HttpMatch, HttpRoute, HttpRule, Meta, PathMatch, PathModifier, Timeouts};

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> HttpRoute {
    let (rules, matches) = if fields.has("rules") {
        let rules = fields.list("rules", 1..=16, rule);
        let matches = rules.iter().map(|(_, matches)| matches).sum();
        (rules.into_iter().map(|(rule, _)| rule).collect(), matches)
    } else {
        fields.skip("rules");
        (vec![default_rule()], 1)
    };
    too_many_matches(fields, matches);
    references::rule_names(fields, Some(Channel::Experimental), rules.iter().map(|rule: &HttpRule| rule.name.as_ref()));
    HttpRoute {
        meta,
        parents: references::parents(fields),
        use_default_gateways: references::use_default_gateways(fields),
        hostnames: fields.texts("hostnames", 0..=16, &HOSTNAME),
        rules,
    }
}

/// "While 16 rules and 64 matches per rule are allowed, the total number of matches across all rules in a route must be less than 128";
/// in fact 128 are taken.
pub(super) fn too_many_matches(fields: &mut Fields<'_>, count: usize) {
    if count > 128 {
        fields.refuse(
            "rules",
            format!("must have at most 128 matches in all rules together, has {count}; split the route"),
        );
    }
}

/// `rules` that are not given are one rule that matches everything and has no backend.
fn default_rule() -> HttpRule {
    HttpRule {
        name: None,
        matches: vec![http_match::everything()],
        filters: Vec::new(),
        backends: Vec::new(),
        timeouts: Timeouts::default(),
        retry: None,
        session_persistence: None,
    }
}

/// A rule and the number of its matches as written.
fn rule(reader: &mut Reader, node: &Node) -> (HttpRule, usize) {
    reader.object(node, |fields| {
        let has_matches = fields.has("matches");
        let mut matches = fields.list("matches", 0..=64, http_match::read);
        let count = if has_matches { matches.len() } else { 1 };
        let filters = http_filter::filters(fields);
        let backends =
            fields.list("backendRefs", 0..=16, |reader, node| references::backend(reader, node, http_filter::filters));
        if !backends.is_empty() && filters.iter().any(|filter| matches!(filter, HttpFilter::RequestRedirect(_))) {
            fields.refuse("backendRefs", "must not be given beside a RequestRedirect filter, which answers by itself");
        }
        if !has_matches {
            matches.push(http_match::everything());
        }
        check_prefix_matches(fields, &matches, &filters, &backends);
        if matches.is_empty() {
            matches.push(http_match::everything());
        }
        let rule = HttpRule {
            name: fields.text("name", &SECTION_NAME),
            matches,
            filters,
            backends,
            timeouts: fields.optional("timeouts", retry::timeouts).unwrap_or_default(),
            retry: retry::read(fields),
            session_persistence: session_persistence::read(fields).map(Box::new),
        };
        (rule, count)
    })
}

/// ReplacePrefixMatch needs to know the prefix: exactly one match, a prefix. As the CRD's rules say it, a filter that is repeated is not
/// looked at, nor are backends of which several have one.
fn check_prefix_matches(
    fields: &mut Fields<'_>,
    matches: &[HttpMatch],
    filters: &[HttpFilter],
    backends: &[BackendRef<HttpFilter>],
) {
    if let [HttpMatch { path: PathMatch::Prefix(_), .. }] = matches {
        return;
    }
    let redirect = |filter: &HttpFilter| matches!(filter, HttpFilter::RequestRedirect(redirect) if replaces_prefix(redirect.path.as_ref()));
    let rewrite = |filter: &HttpFilter| matches!(filter, HttpFilter::UrlRewrite(rewrite) if replaces_prefix(rewrite.path.as_ref()));
    let one = |filters: &[HttpFilter], is: &dyn Fn(&HttpFilter) -> bool| {
        filters.iter().filter(|filter| is(filter)).count() == 1
    };
    for (name, is) in [("RequestRedirect", &redirect as &dyn Fn(&HttpFilter) -> bool), ("URLRewrite", &rewrite)] {
        let in_backends = backends.iter().filter(|backend| one(&backend.filters, is)).count() == 1;
        if one(filters, is) || in_backends {
            let message =
                format!("{name} with replacePrefixMatch needs exactly one match in the rule, of type PathPrefix");
            fields.refuse("matches", message);
        }
    }
}

const fn replaces_prefix(path: Option<&PathModifier>) -> bool {
    matches!(path, Some(PathModifier::ReplacePrefixMatch(_)))
}
