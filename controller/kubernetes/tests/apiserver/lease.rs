use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kube::Client;
use portolan_kubernetes::{LEASE, Leadership, Lease, LeaseOptions};
use portolan_testkit::kube::{Kube, KubeOptions};
use tokio::sync::oneshot;

use crate::fixture::{api, client, client_of, kube, namespace};

/// Quick, so that nobody waits 15 seconds.
const OPTIONS: LeaseOptions = LeaseOptions {
    duration: Duration::from_secs(3),
    renew_deadline: Duration::from_secs(2),
    retry: Duration::from_millis(400),
};

const NAMESPACE: &str = "LEASE_TEST_NAMESPACE";
const KUBECONFIG: &str = "LEASE_TEST_KUBECONFIG";
const POD: &str = "LEASE_TEST_POD";

/// A process of its own, which the others start: it says when it leads, and lets go when it is told to end.
#[tokio::test]
#[ignore = "run by other tests, in a process of its own"]
async fn candidate() {
    let (Ok(namespace), Ok(kubeconfig)) = (std::env::var(NAMESPACE), std::env::var(KUBECONFIG)) else { return };
    let client = client_of(kubeconfig.as_ref()).await;
    let pod = std::env::var(POD).unwrap();
    let identity = format!("{pod}_{}", std::process::id());
    let (lease, leadership) = Lease::new(&client, &namespace, &identity, OPTIONS);
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    tokio::spawn(say(leadership));
    lease.run(async { _ = terminated.recv().await }).await;
}

async fn say(mut leadership: Leadership) {
    loop {
        leadership.changed(false).await;
        println!("\nleads");
        leadership.changed(true).await;
        println!("\nfollows");
    }
}

struct Process {
    child: Child,
    says: mpsc::Receiver<String>,
}

impl Process {
    /// In a pod of its own.
    fn start(kube: &Kube, namespace: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self::start_in(kube, namespace, &format!("pod-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    fn start_in(kube: &Kube, namespace: &str, pod: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lease::candidate", "--ignored", "--nocapture"])
            .env(NAMESPACE, namespace)
            .env(KUBECONFIG, kube.kubeconfig())
            .env(POD, pod)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, says) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok).filter(|line| line == "leads" || line == "follows") {
                _ = sender.send(line);
            }
        });
        Self { child, says }
    }

    fn leads(&self) -> Duration {
        let start = Instant::now();
        assert_eq!(self.says.recv_timeout(Duration::from_secs(20)).as_deref(), Ok("leads"));
        start.elapsed()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// As when it is out of memory: kubelet starts another in its pod.
#[tokio::test]
async fn a_holder_that_is_killed_is_followed_by_the_next_of_its_pod_at_once() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let mut holder = Process::start_in(kube().await, &namespace, "pod");
    holder.leads();
    holder.child.kill().unwrap();
    holder.child.wait().unwrap();
    let next = Process::start_in(kube().await, &namespace, "pod");
    let waited = next.leads();
    assert!(waited < OPTIONS.renew_deadline, "{waited:?}");
}

#[tokio::test]
async fn a_holder_that_is_killed_is_followed_when_its_lease_expires() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let mut first = Process::start(kube().await, &namespace);
    first.leads();
    let second = Process::start(kube().await, &namespace);
    std::thread::sleep(Duration::from_secs(4));
    assert!(second.says.try_recv().is_err(), "there is a leader");
    first.child.kill().unwrap();
    let took = second.leads();
    assert!((Duration::from_millis(2_400)..Duration::from_secs(6)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_holder_that_is_told_to_end_hands_over_within_a_second() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let mut holder = Process::start(kube().await, &namespace);
    holder.leads();
    for _ in 0..3 {
        let next = Process::start(kube().await, &namespace);
        std::thread::sleep(Duration::from_secs(2));
        let told = Command::new("kill").args(["-TERM", &holder.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        let took = next.leads();
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(holder.says.recv_timeout(Duration::from_secs(1)).as_deref(), Ok("follows"));
        assert!(holder.child.wait().unwrap().success());
        holder = next;
    }
    let lease = api(&client, "coordination.k8s.io/v1", "Lease", &namespace).get(LEASE).await.unwrap();
    assert_eq!(lease.data["spec"]["leaseTransitions"], 3, "{lease:?}");
}

/// A candidate in this process.
pub fn start(client: &Client, namespace: &str, identity: &str) -> (Leadership, oneshot::Sender<()>) {
    let (lease, leadership) = Lease::new(client, namespace, identity, OPTIONS);
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(lease.run(async { _ = stopped.await }));
    (leadership, stop)
}

async fn within(time: Duration, leadership: &mut Leadership, leads: bool) {
    tokio::time::timeout(time, leadership.changed(!leads)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_ends_without_an_api_server_and_comes_back_with_it() {
    let mut kube = Kube::start(&KubeOptions { crds: None, controller_manager: false }).await.unwrap();
    let client = client_of(&kube.kubeconfig()).await;
    let (mut leadership, _stop) = start(&client, "default", "a");
    within(Duration::from_secs(10), &mut leadership, true).await;
    tokio::task::block_in_place(|| kube.stop_api_server());
    let gone = Instant::now();
    within(OPTIONS.renew_deadline + Duration::from_millis(300), &mut leadership, false).await;
    assert!(gone.elapsed() > OPTIONS.renew_deadline / 2, "one renewal that fails is no reason to give up");
    assert!(!leadership.holds());
    kube.start_api_server().await.unwrap();
    within(Duration::from_secs(20), &mut leadership, true).await;
}

#[tokio::test]
async fn a_lease_that_somebody_deletes_or_takes_is_fought_for_by_the_rules() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let (mut first, _stop) = start(&client, &namespace, "a");
    within(Duration::from_secs(5), &mut first, true).await;
    let leases = api(&client, "coordination.k8s.io/v1", "Lease", &namespace);
    leases.delete(LEASE, &kube::api::DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Whether or not it stopped in between, it goes on.
    within(Duration::from_secs(5), &mut first, true).await;
    let taken = serde_json::json!({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 1}});
    leases.patch(LEASE, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&taken)).await.unwrap();
    within(Duration::from_secs(1), &mut first, false).await;
    within(Duration::from_secs(8), &mut first, true).await;
}
