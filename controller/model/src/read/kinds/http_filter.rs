//! Filters of an HTTPRoute's rules and backends.

use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader};
use super::{cors, external_auth, headers, mirror, path_modifier, references};
use crate::objects::HttpFilter;

static TYPE: Choice = Choice {
    values: &[
        "RequestHeaderModifier",
        "ResponseHeaderModifier",
        "RequestMirror",
        "RequestRedirect",
        "URLRewrite",
        "ExtensionRef",
        "CORS",
    ],
    experimental: &["ExternalAuth"],
};

/// `filters`, with the rules between them.
pub(super) fn filters(fields: &mut Fields<'_>) -> Vec<HttpFilter> {
    let filters = fields.list("filters", 0..=16, read);
    let count = |is: fn(&HttpFilter) -> bool| filters.iter().filter(|filter| is(filter)).count();
    let redirects = count(|filter| matches!(filter, HttpFilter::RequestRedirect(_)));
    let rewrites = count(|filter| matches!(filter, HttpFilter::UrlRewrite(_)));
    if redirects > 0 && rewrites > 0 {
        fields.refuse("filters", "must have RequestRedirect or URLRewrite, not both");
    }
    for (name, count) in [
        ("CORS", count(|filter| matches!(filter, HttpFilter::Cors(_)))),
        ("RequestHeaderModifier", count(|filter| matches!(filter, HttpFilter::RequestHeaderModifier(_)))),
        ("ResponseHeaderModifier", count(|filter| matches!(filter, HttpFilter::ResponseHeaderModifier(_)))),
        ("RequestRedirect", redirects),
        ("URLRewrite", rewrites),
    ] {
        not_repeated(fields, name, count);
    }
    filters
}

/// Reports a filter of which there may be only one.
pub(super) fn not_repeated(fields: &mut Fields<'_>, name: &str, count: usize) {
    if count > 1 {
        fields.refuse("filters", format!("must have {name} once at most; put everything into one"));
    }
}

/// Each type has a field of its own: given exactly with its type.
pub(super) fn member(fields: &mut Fields<'_>, kind: &str, its_kind: &str, field: &str) {
    match (fields.has(field), kind == its_kind) {
        (false, true) => fields.refuse(field, format!("is required when type is {its_kind}")),
        (true, false) => fields.refuse(field, format!("must not be given unless type is {its_kind}")),
        _ => {}
    }
}

fn read(reader: &mut Reader, node: &Node) -> HttpFilter {
    reader.object(node, |fields| {
        let kind = fields.required_choice("type", &TYPE);
        for (its_kind, field) in [
            ("RequestHeaderModifier", "requestHeaderModifier"),
            ("ResponseHeaderModifier", "responseHeaderModifier"),
            ("RequestMirror", "requestMirror"),
            ("RequestRedirect", "requestRedirect"),
            ("URLRewrite", "urlRewrite"),
            ("ExtensionRef", "extensionRef"),
            ("CORS", "cors"),
        ] {
            member(fields, &kind, its_kind, field);
        }
        fields.experimental(|fields| member(fields, &kind, "ExternalAuth", "externalAuth"));
        let request = fields.optional("requestHeaderModifier", headers::modifier);
        let response = fields.optional("responseHeaderModifier", headers::modifier);
        let mirror = fields.optional("requestMirror", mirror::read);
        let redirect = fields.optional("requestRedirect", path_modifier::redirect);
        let rewrite = fields.optional("urlRewrite", path_modifier::rewrite);
        let extension = fields.optional("extensionRef", references::local);
        let cors = fields.optional("cors", cors::read);
        let auth = fields.experimental(|fields| fields.optional("externalAuth", external_auth::read));
        let filter = match &*kind {
            "RequestHeaderModifier" => request.map(HttpFilter::RequestHeaderModifier),
            "ResponseHeaderModifier" => response.map(HttpFilter::ResponseHeaderModifier),
            "RequestMirror" => mirror.map(HttpFilter::RequestMirror),
            "RequestRedirect" => redirect.map(HttpFilter::RequestRedirect),
            "URLRewrite" => rewrite.map(HttpFilter::UrlRewrite),
            "ExtensionRef" => extension.map(HttpFilter::ExtensionRef),
            "CORS" => cors.map(HttpFilter::Cors),
            "ExternalAuth" => auth.map(|auth| HttpFilter::ExternalAuth(Box::new(auth))),
            _ => return HttpFilter::Unknown(kind),
        };
        filter.unwrap_or_else(|| {
            fields.incomplete();
            HttpFilter::Unknown(Arc::clone(&kind))
        })
    })
}
