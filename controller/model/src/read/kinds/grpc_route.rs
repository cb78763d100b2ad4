//! GRPCRoute.

use std::sync::Arc;

use super::super::Channel;
use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader};
use super::forms::{HOSTNAME, SECTION_NAME};
use super::http_filter::{member, not_repeated};
use super::http_route::too_many_matches;
use super::{grpc_match, headers, mirror, references, session_persistence};
use crate::objects::{GrpcFilter, GrpcRoute, GrpcRule, Meta};

static FILTER_TYPE: Choice =
    Choice::of(&["ResponseHeaderModifier", "RequestHeaderModifier", "RequestMirror", "ExtensionRef"]);

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> GrpcRoute {
    let rules = fields.list("rules", 0..=16, rule);
    too_many_matches(fields, rules.iter().map(|rule| rule.matches.len()).sum());
    references::rule_names(fields, Some(Channel::Experimental), rules.iter().map(|rule| rule.name.as_ref()));
    GrpcRoute {
        meta,
        parents: references::parents(fields),
        use_default_gateways: references::use_default_gateways(fields),
        hostnames: fields.texts("hostnames", 0..=16, &HOSTNAME),
        rules,
    }
}

fn rule(reader: &mut Reader, node: &Node) -> GrpcRule {
    reader.object(node, |fields| GrpcRule {
        name: fields.text("name", &SECTION_NAME),
        matches: fields.list("matches", 0..=64, grpc_match::read),
        filters: filters(fields),
        backends: fields.list("backendRefs", 0..=16, |reader, node| references::backend(reader, node, filters)),
        session_persistence: session_persistence::read(fields).map(Box::new),
    })
}

fn filters(fields: &mut Fields<'_>) -> Vec<GrpcFilter> {
    let filters = fields.list("filters", 0..=16, filter);
    let count = |is: fn(&GrpcFilter) -> bool| filters.iter().filter(|filter| is(filter)).count();
    let requests = count(|filter| matches!(filter, GrpcFilter::RequestHeaderModifier(_)));
    let responses = count(|filter| matches!(filter, GrpcFilter::ResponseHeaderModifier(_)));
    not_repeated(fields, "RequestHeaderModifier", requests);
    not_repeated(fields, "ResponseHeaderModifier", responses);
    filters
}

fn filter(reader: &mut Reader, node: &Node) -> GrpcFilter {
    reader.object(node, |fields| {
        let kind = fields.required_choice("type", &FILTER_TYPE);
        for (its_kind, field) in [
            ("RequestHeaderModifier", "requestHeaderModifier"),
            ("ResponseHeaderModifier", "responseHeaderModifier"),
            ("RequestMirror", "requestMirror"),
            ("ExtensionRef", "extensionRef"),
        ] {
            member(fields, &kind, its_kind, field);
        }
        let request = fields.optional("requestHeaderModifier", headers::modifier);
        let response = fields.optional("responseHeaderModifier", headers::modifier);
        let mirror = fields.optional("requestMirror", mirror::read);
        let extension = fields.optional("extensionRef", references::local);
        let filter = match &*kind {
            "RequestHeaderModifier" => request.map(GrpcFilter::RequestHeaderModifier),
            "ResponseHeaderModifier" => response.map(GrpcFilter::ResponseHeaderModifier),
            "RequestMirror" => mirror.map(GrpcFilter::RequestMirror),
            "ExtensionRef" => extension.map(GrpcFilter::ExtensionRef),
            _ => return GrpcFilter::Unknown(kind),
        };
        filter.unwrap_or_else(|| {
            fields.incomplete();
            GrpcFilter::Unknown(Arc::clone(&kind))
        })
    })
}
