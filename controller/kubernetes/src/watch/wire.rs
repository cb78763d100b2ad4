//! What goes over the wire: collections, their lists and watches, and JSON without what nobody reads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kube::api::{GetParams, ListParams, WatchParams};
use kube::core::Request;
use portolan_model::{Kind, Name};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// kubectl's copy of the whole object
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is listed and watched together: a kind, in one namespace or all, or one object of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    pub kind: Kind,
    /// `None`: all of them, or the kind has none
    pub namespace: Option<Name>,
    /// `None`: every object
    pub name: Option<Name>,
}

/// A resource of the API server, and which of its objects are meant.
#[derive(Clone, Debug)]
pub(crate) struct Collection {
    /// Such as `/apis/gateway.networking.k8s.io/v1/httproutes`
    path: String,
    labels: Option<String>,
    fields: Option<String>,
    /// How many objects one answer holds
    page: u32,
    /// Whether only the metadata of the objects is asked for
    metadata: bool,
}

impl Collection {
    /// The objects of a scope, in a version.
    pub fn new(scope: &Scope, version: &str) -> Self {
        let mut fields = Vec::new();
        if let Some(name) = &scope.name {
            fields.push(format!("metadata.name={name}"));
        }
        if scope.kind == Kind::Secret {
            // Those that are followed one by one are all but these: no object comes from two watches.
            let operator = if scope.name.is_some() { "!=" } else { "=" };
            fields.push(format!("type{operator}kubernetes.io/tls"));
        }
        Self {
            path: path(scope.kind, version, scope.namespace.as_deref()),
            labels: None,
            fields: (!fields.is_empty()).then(|| fields.join(",")),
            // Slices and Secrets are the large ones.
            page: if matches!(scope.kind, Kind::EndpointSlice | Kind::Secret) { 100 } else { 500 },
            metadata: false,
        }
    }

    /// The metadata of every CustomResourceDefinition.
    pub fn crds() -> Self {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
        Self { path, labels: None, fields: None, page: 500, metadata: true }
    }

    /// Everything in a collection with these labels; `path` such as `/apis/apps/v1/deployments`.
    pub fn selected(path: String, labels: &str) -> Self {
        Self { path, labels: Some(labels.to_owned()), fields: None, page: 500, metadata: false }
    }

    /// Only those with this label.
    pub fn labelled(mut self, label: &str, value: &str) -> Self {
        self.labels = Some(format!("{label}={value}"));
        self
    }

    pub fn list(&self, limit: Option<u32>, next: Option<String>) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let parameters = ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: Some(limit.unwrap_or(self.page)),
            continue_token: next,
            ..ListParams::default()
        };
        let request = Request::new(&self.path);
        let request = if self.metadata { request.list_metadata(&parameters) } else { request.list(&parameters) };
        request.map_err(kube::Error::BuildRequest)
    }

    /// `seconds`: after that the server ends it.
    pub fn watch(&self, version: &str, seconds: u32) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let parameters = WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(seconds),
            bookmarks: true,
            send_initial_events: false,
        };
        let request = Request::new(&self.path);
        let request = if self.metadata {
            request.watch_metadata(&parameters, version)
        } else {
            request.watch(&parameters, version)
        };
        request.map_err(kube::Error::BuildRequest)
    }

    /// One object, as it is now.
    pub fn get(&self, name: &str) -> Result<http::Request<Vec<u8>>, kube::Error> {
        Request::new(&self.path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        self.fields.iter().try_for_each(|fields| write!(f, "?fieldSelector={fields}"))
    }
}

fn path(kind: Kind, version: &str, namespace: Option<&str>) -> String {
    let root =
        if kind.group().is_empty() { format!("/api/{version}") } else { format!("/apis/{}/{version}", kind.group()) };
    let within = namespace.map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
    format!("{root}{within}/{}", plural(kind))
}

/// The resource of a kind, as its CRD names it.
pub(crate) fn plural(kind: Kind) -> String {
    let kind = kind.as_str().to_lowercase();
    if let Some(stem) = kind.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u'])) {
        format!("{stem}ies")
    } else if kind.ends_with('s') {
        format!("{kind}es")
    } else {
        format!("{kind}s")
    }
}

/// A page of a list.
#[derive(serde::Deserialize)]
pub(crate) struct Page {
    pub metadata: PageMetadata,
    #[serde(default = "Vec::new", deserialize_with = "or_none")]
    pub items: Vec<Slim>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageMetadata {
    #[serde(default)]
    pub resource_version: String,
    #[serde(default)]
    pub r#continue: String,
}

/// Go writes an empty list as `null` at times.
fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Slim>, D::Error> {
    Ok(Option::<Vec<Slim>>::deserialize(deserializer)?.unwrap_or_default())
}

/// An object as JSON, without `metadata.managedFields` and kubectl's annotation, which are often larger than the rest; they are never allocated.
#[derive(Clone, Debug)]
pub(crate) struct Slim(pub Value);

impl Slim {
    /// A field of `metadata`.
    pub fn metadata(&self, field: &str) -> Option<&str> {
        self.0.get("metadata")?.get(field)?.as_str()
    }

    /// `metadata.annotations`
    pub fn annotations(&self) -> BTreeMap<&str, Arc<str>> {
        let annotations = self.0.get("metadata").and_then(|metadata| metadata.get("annotations"));
        let annotations = annotations.and_then(Value::as_object).into_iter().flatten();
        annotations.filter_map(|(key, value)| Some((key.as_str(), Arc::from(value.as_str()?)))).collect()
    }
}

impl<'de> Deserialize<'de> for Slim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields).map(|Pruned(fields)| Self(Value::Object(fields)))
    }
}

/// `metadata` or its `annotations`.
struct Pruned(Map<String, Value>);

impl<'de> Deserialize<'de> for Pruned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

/// Only objects have these names where they are pruned: `metadata` and `annotations` of other depths are read as they stand.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Pruned;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Pruned, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = match key.as_str() {
                "managedFields" | LAST_APPLIED => {
                    entries.next_value::<IgnoredAny>()?;
                    continue;
                }
                "metadata" | "annotations" => {
                    entries.next_value::<Option<Pruned>>()?.map_or(Value::Null, |Pruned(fields)| Value::Object(fields))
                }
                _ => entries.next_value()?,
            };
            fields.insert(key, value);
        }
        Ok(Pruned(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_the_crds() {
        let all: Vec<String> = Kind::ALL.into_iter().map(plural).collect();
        let written = "gatewayclasses gateways listenersets httproutes grpcroutes tlsroutes tcproutes udproutes referencegrants \
                       backendtlspolicies backends envoyproxies namespaces services endpointslices secrets configmaps";
        assert_eq!(all.join(" "), written);
    }

    #[test]
    fn what_nobody_reads_is_never_there() {
        let text = r#"{"kind":"A","metadata":{"name":"a","managedFields":[{"x":1}],"annotations":{"k":"v",
            "kubectl.kubernetes.io/last-applied-configuration":"{}"}},"data":{"managedFields":"kept, a key of the user's"},"spec":{"annotations":1}}"#;
        let Slim(value) = serde_json::from_str(text).unwrap();
        let want = serde_json::json!({"kind": "A", "metadata": {"name": "a", "annotations": {"k": "v"}},
            "data": {"managedFields": "kept, a key of the user's"}, "spec": {"annotations": 1}});
        assert_eq!(value, want);
    }

    #[test]
    fn no_secret_comes_from_two_watches() {
        let scope =
            |name: Option<&str>| Scope { kind: Kind::Secret, namespace: Some("a".into()), name: name.map(Arc::from) };
        let uri = |name| Collection::new(&scope(name), "v1").list(None, None).unwrap().uri().to_string();
        assert!(uri(None).starts_with("/api/v1/namespaces/a/secrets?"), "{}", uri(None));
        assert!(uri(None).contains("fieldSelector=type%3Dkubernetes.io%2Ftls&"), "{}", uri(None));
        assert!(uri(Some("x")).contains("metadata.name%3Dx%2Ctype%21%3Dkubernetes.io%2Ftls"), "{}", uri(Some("x")));
    }
}
