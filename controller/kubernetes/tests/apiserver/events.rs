use std::collections::BTreeMap;

use portolan_kubernetes::{Leadership, StatusOptions, Statuses, events};
use portolan_model::ir::{ParentStatus, Status};
use portolan_model::objects::ParentRef;
use portolan_model::{CONTROLLER_NAME, Condition, ConditionType, Kind, NamespacedName, ObjectKey, Reason};

use crate::fixture::{api, apply, client, eventually, kube, meta, namespace, route};

fn status(resolved: bool) -> Status {
    let parent =
        ParentRef { group: None, kind: None, namespace: None, name: "edge".into(), section_name: None, port: None };
    let condition = if resolved {
        Condition::new(ConditionType::ResolvedRefs, true, Reason::ResolvedRefs, "")
    } else {
        let text = "no Service shop/cart: create it, or change spec.rules[0].backendRefs[0].name";
        Condition::new(ConditionType::ResolvedRefs, false, Reason::BackendNotFound, text)
    };
    Status::Route { parents: vec![ParentStatus { parent, conditions: vec![condition] }] }
}

#[tokio::test]
async fn a_problem_is_an_event_of_the_object_and_its_return_is_counted() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let object = apply(&client, route(&namespace, "broken")).await;
    let (sink, work) = events(client.clone(), "portolan-0");
    tokio::spawn(work);
    let statuses = Statuses::default();
    let options = StatusOptions::default();
    tokio::spawn(statuses.clone().write(client.clone(), Leadership::alone(), sink, options));
    let key = ObjectKey::new(Kind::HTTPRoute, NamespacedName::new(&*namespace, "broken"));
    statuses.update([(key.clone(), Some(meta(&object)))], BTreeMap::new());
    let all = api(&client, "events.k8s.io/v1", "Event", &namespace);
    let told = async |count: Option<u64>| {
        statuses.update([], BTreeMap::from([(key.clone(), Some(status(true)))]));
        let routes = crate::fixture::routes(&client, &namespace);
        eventually("a fine route", async || {
            let object = routes.get("broken").await.unwrap();
            (object.data["status"]["parents"][0]["conditions"][0]["status"] == "True").then_some(())
        })
        .await;
        statuses.update([], BTreeMap::from([(key.clone(), Some(status(false)))]));
        eventually("an Event", async || {
            let mut list = all.list(&kube::api::ListParams::default()).await.unwrap().items;
            assert!(list.len() <= 1, "{list:?}");
            list.pop().filter(|event| event.data["series"]["count"].as_u64() == count)
        })
        .await
    };
    let event = told(None).await.data;
    assert_eq!(event["regarding"]["uid"], *object.metadata.uid.as_ref().unwrap());
    assert_eq!(event["regarding"]["kind"], "HTTPRoute");
    assert_eq!((&event["type"], &event["reason"]), (&"Warning".into(), &"BackendNotFound".into()));
    assert_eq!(event["reportingController"], CONTROLLER_NAME);
    told(Some(2)).await;
    told(Some(3)).await;
    // What a person sees.
    let described = kube().await.kubectl(&["describe", "httproute", "broken", "-n", &namespace]).unwrap();
    let line = described.lines().find(|line| line.contains("Warning") && line.contains("BackendNotFound"));
    assert!(line.is_some_and(|line| line.contains("(x3 over") && line.contains("no Service shop/cart")), "{described}");
}
