//! One step of a plan as requests.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use super::observe::seen;
use super::plan::{ObjectId, Problem, Seen, Step};
use super::replicas::{KEEPER, Settled, is_autoscaled, settle};
use crate::FIELD_MANAGER;
use crate::resource::resource;

/// Does a step. The object as it is then; `None`: it is gone.
pub(super) async fn send(client: &Client, step: &Step, timeout: Duration) -> Result<Option<Seen>, Problem> {
    let (Step::Apply { id, .. } | Step::Delete { id, .. }) = step;
    let done = async {
        match step {
            Step::Apply { id, manifest, is_new, .. } => apply(client, id, manifest, *is_new).await.map(Some),
            Step::Delete { id, uid, resource_version } => {
                delete(client, id, uid, resource_version).await.map(|()| None)
            }
        }
    };
    let problem = |text: String| Problem { object: id.to_string(), text };
    match tokio::time::timeout(timeout, done).await {
        Ok(done) => done.map_err(problem),
        Err(_) => Err(problem(format!("the API server has not answered in {timeout:?}"))),
    }
}

fn api(client: &Client, id: &ObjectId) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), &id.namespace, &resource(&id.api_version, &id.kind))
}

async fn apply(client: &Client, id: &ObjectId, manifest: &Value, is_new: bool) -> Result<Seen, String> {
    let api = api(client, id);
    let is_scaled = matches!(&*id.kind, "Deployment" | "StatefulSet");
    let live = if is_new || is_scaled { api.get_opt(&id.name).await.map_err(|error| words(&error))? } else { None };
    if is_new && let Some(live) = &live {
        let labels = live.metadata.labels.as_ref();
        if labels.and_then(|labels| labels.get("app.kubernetes.io/managed-by")).is_none_or(|who| who != FIELD_MANAGER) {
            return Err("there is one of this name that is not Portolan's; remove or rename it".into());
        }
    }
    let manifest = if is_scaled {
        let autoscalers: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &id.namespace, &resource("autoscaling/v2", "HorizontalPodAutoscaler"));
        let autoscalers = autoscalers.list(&ListParams::default()).await.map_err(|error| words(&error))?;
        let is_autoscaled = is_autoscaled(autoscalers.items.iter().map(|one| &one.data), &id.kind, &id.name);
        let live = live.map(|live| json!(live));
        let Settled { keep, manifest } = settle(manifest.clone(), live.as_ref(), is_autoscaled);
        if let Some(keep) = keep {
            let parameters = PatchParams::apply(KEEPER).force();
            api.patch(&id.name, &parameters, &Patch::Apply(&keep)).await.map_err(|error| words(&error))?;
        }
        manifest
    } else {
        manifest.clone()
    };
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let object = api.patch(&id.name, &parameters, &Patch::Apply(&manifest)).await.map_err(|error| words(&error))?;
    Ok(seen(&object.metadata))
}

async fn delete(client: &Client, id: &ObjectId, uid: &str, resource_version: &str) -> Result<(), String> {
    let preconditions = Preconditions { uid: Some(uid.into()), resource_version: Some(resource_version.into()) };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match api(client, id).delete(&id.name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        Err(error) => Err(words(&error)),
    }
}

fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(answer) => answer.message.clone(),
        error => error.to_string(),
    }
}
