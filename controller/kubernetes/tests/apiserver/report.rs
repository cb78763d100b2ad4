use std::time::{Duration, Instant};

use kube::Client;
use kube::api::DeleteParams;
use portolan_kubernetes::report::{Pod, Report, share};
use serde_json::json;
use tokio::sync::watch;

use crate::fixture::{api, apply, client, eventually, namespace};

async fn pod(client: &Client, namespace: &str, name: &str) -> Pod {
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"containers": [{"name": "portolan", "image": "portolan"}]},
    });
    let uid = apply(client, manifest).await.metadata.uid.unwrap();
    Pod { namespace: namespace.to_owned(), name: name.to_owned(), uid }
}

fn programmed(uids: &[String]) -> Report {
    Report { programmed: uids.iter().map(|uid| uid.as_str().into()).collect(), ..Report::default() }
}

#[tokio::test]
async fn replicas_hear_of_each_other_and_write_once_a_second_at_most() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let (say, own) = watch::channel(Report::default());
    let (_quiet, quiet) = watch::channel(Report::default());
    let (_, work) = share(&client, pod(&client, &namespace, "a").await, own);
    tokio::spawn(work);
    let (mut heard, work) = share(&client, pod(&client, &namespace, "b").await, quiet);
    tokio::spawn(work);
    heard.wait_for(|reports| reports.contains_key("a")).await.unwrap();

    let start = Instant::now();
    let mut seen = 0;
    let mut uids = Vec::new();
    while start.elapsed() < Duration::from_secs(5) {
        uids.push(format!("uid-{}", uids.len()));
        say.send_replace(programmed(&uids));
        tokio::time::sleep(Duration::from_millis(20)).await;
        seen += u32::from(heard.has_changed().unwrap());
        heard.borrow_and_update();
    }
    assert!((3..=6).contains(&seen), "{seen} writes in five seconds");
    let all = programmed(&uids);
    tokio::time::timeout(Duration::from_secs(3), heard.wait_for(|reports| reports.get("a") == Some(&all)))
        .await
        .expect("the last word counts")
        .unwrap();
    assert!(!heard.borrow().contains_key("b"), "its own report is no news");

    // Nothing new, nothing written.
    let config_maps = api(&client, "v1", "ConfigMap", &namespace);
    let version = async || config_maps.get("portolan-replica-a").await.unwrap().metadata.resource_version;
    let before = version().await;
    say.send_replace(all.clone());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(version().await, before);
}

#[tokio::test]
async fn a_report_goes_with_its_pod_and_a_new_process_begins_anew() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let a = pod(&client, &namespace, "a").await;
    let (_say, own) = watch::channel(programmed(&["u".to_owned()]));
    let (_, work) = share(&client, a.clone(), own);
    let first = tokio::spawn(work);
    let (_quiet, quiet) = watch::channel(Report::default());
    let (heard, work) = share(&client, pod(&client, &namespace, "b").await, quiet);
    tokio::spawn(work);
    eventually("the report", async || (heard.borrow().get("a")?.programmed.len() == 1).then_some(())).await;
    first.abort();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(heard.borrow()["a"].programmed.len(), 1, "silence says nothing");

    let (_again, own) = watch::channel(Report::default());
    let (_, work) = share(&client, a, own);
    let second = tokio::spawn(work);
    eventually("an empty report", async || heard.borrow().get("a")?.programmed.is_empty().then_some(())).await;
    second.abort();
    let now = DeleteParams::default().grace_period(0);
    api(&client, "v1", "Pod", &namespace).delete("a", &now).await.unwrap();
    eventually("no report", async || (!heard.borrow().contains_key("a")).then_some(())).await;
}
