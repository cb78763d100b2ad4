package kubelet

import (
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"portolan.dev/conformance/standalone/storage"
)

// errNoVolume: a Secret or ConfigMap that a pod mounts is not there yet.
var errNoVolume = errors.New("volume is missing")

// Kubelet runs the pods of every Deployment of the store and keeps the EndpointSlices of every Service.
type Kubelet struct {
	store *storage.Store
	echo  string
	work  string

	mutex   sync.Mutex
	pods    map[string]*pod // by namespace/name
	address int
	wake    chan struct{}
	done    chan struct{}
	stopped sync.WaitGroup
}

// Start a kubelet that runs the program echo and keeps volumes in the folder work.
func Start(store *storage.Store, echo, work string) *Kubelet {
	k := &Kubelet{store: store, echo: echo, work: work, pods: map[string]*pod{}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	k.stopped.Go(func() {
		for {
			select {
			case <-k.done:
				return
			case <-store.Changed():
			case <-k.wake:
			}
			k.reconcile()
		}
	})
	return k
}

// Stop ends all pods.
func (k *Kubelet) Stop() {
	close(k.done)
	k.stopped.Wait()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, pod := range k.pods {
		pod.stop()
	}
}

// Logs of a pod.
func (k *Kubelet) Logs(namespace, name string, since time.Time) ([]byte, error) {
	k.mutex.Lock()
	pod, ok := k.pods[namespace+"/"+name]
	k.mutex.Unlock()
	if !ok {
		return nil, fmt.Errorf("no pod %s/%s", namespace, name)
	}
	return pod.log(since), nil
}

func (k *Kubelet) reconcile() {
	wanted := map[string]bool{}
	for _, object := range k.store.List("apps", "deployments", "") {
		var deployment appsv1.Deployment
		if decode(object, &deployment) != nil || !runsEcho(deployment.Spec.Template.Spec) {
			continue
		}
		replicas := 1
		if deployment.Spec.Replicas != nil {
			replicas = int(*deployment.Spec.Replicas)
		}
		for index := range replicas {
			name := podName(deployment, index)
			wanted[deployment.Namespace+"/"+name] = true
			k.ensure(deployment, name)
		}
	}
	k.mutex.Lock()
	var gone []*pod
	for id, pod := range k.pods {
		if !wanted[id] {
			delete(k.pods, id)
			gone = append(gone, pod)
		}
	}
	k.mutex.Unlock()
	for _, pod := range gone {
		_ = k.store.Delete(podKey(pod.object.Namespace, pod.object.Name))
		pod.stop()
	}
	k.report()
	k.endpoints()
}

// ensure that a replica runs.
func (k *Kubelet) ensure(deployment appsv1.Deployment, name string) {
	id := deployment.Namespace + "/" + name
	k.mutex.Lock()
	_, running := k.pods[id]
	k.mutex.Unlock()
	if running {
		return
	}
	files, err := k.volumes(deployment)
	if err != nil {
		return // tried again at the next change
	}
	k.address++
	object := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: name, Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
	object.Spec.NodeName = "local"
	object.Status = corev1.PodStatus{Phase: corev1.PodPending, PodIP: fmt.Sprintf("127.10.%d.%d", k.address/250, k.address%250+1)}
	object.Status.HostIP = "127.0.0.1"
	object.Status.PodIPs = []corev1.PodIP{{IP: object.Status.PodIP}}
	created, err := k.store.Create(podKey(object.Namespace, object.Name), encode(&object))
	if err != nil {
		return
	}
	_ = decode(created, &object)
	pod, err := start(k.echo, k.work, object, files)
	if err != nil {
		fmt.Printf("pod %s does not start: %v\n", id, err)
		return
	}
	k.mutex.Lock()
	k.pods[id] = pod
	k.mutex.Unlock()
	go pod.probe(func() {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	})
}

// report the pods' readiness.
func (k *Kubelet) report() {
	for _, pod := range k.sorted() {
		object := pod.object
		object.Status = pod.status()
		key := podKey(object.Namespace, object.Name)
		encoded := encode(&object)
		if stored, err := k.store.Get(key); err == nil && !equal(stored["status"], encoded["status"]) {
			_, _ = k.store.Replace(key, encoded, true)
		}
	}
}

func (k *Kubelet) sorted() []*pod {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	pods := make([]*pod, 0, len(k.pods))
	for _, pod := range k.pods {
		pods = append(pods, pod)
	}
	sort.Slice(pods, func(a, b int) bool { return pods[a].object.Name < pods[b].object.Name })
	return pods
}

// volumes of a Deployment: content by path.
func (k *Kubelet) volumes(deployment appsv1.Deployment) (map[string][]byte, error) {
	files := map[string][]byte{}
	spec := deployment.Spec.Template.Spec
	for _, mount := range spec.Containers[0].VolumeMounts {
		for _, volume := range spec.Volumes {
			if volume.Name != mount.Name {
				continue
			}
			data, items, err := k.source(deployment.Namespace, volume)
			if err != nil {
				return nil, err
			}
			for key, content := range data {
				path := key
				for _, item := range items {
					if item.Key == key {
						path = item.Path
					}
				}
				files[filepath.Join(mount.MountPath, path)] = content
			}
		}
	}
	return files, nil
}

func (k *Kubelet) source(namespace string, volume corev1.Volume) (map[string][]byte, []corev1.KeyToPath, error) {
	switch {
	case volume.Secret != nil:
		object, err := k.store.Get(storage.Key{Plural: "secrets", Namespace: namespace, Name: volume.Secret.SecretName})
		if err != nil {
			return nil, nil, errNoVolume
		}
		var secret corev1.Secret
		err = decode(object, &secret)
		return secret.Data, volume.Secret.Items, err
	case volume.ConfigMap != nil:
		object, err := k.store.Get(storage.Key{Plural: "configmaps", Namespace: namespace, Name: volume.ConfigMap.Name})
		if err != nil {
			return nil, nil, errNoVolume
		}
		var config corev1.ConfigMap
		if err := decode(object, &config); err != nil {
			return nil, nil, err
		}
		data := map[string][]byte{}
		for key, text := range config.Data {
			data[key] = []byte(text)
		}
		return data, volume.ConfigMap.Items, nil
	}
	return nil, nil, errNoVolume
}

// runsEcho: other images (a DNS server, for UDPRoute) have no program here, so their pods do not exist.
func runsEcho(spec corev1.PodSpec) bool {
	return len(spec.Containers) == 1 && strings.Contains(spec.Containers[0].Image, "/echo-basic:")
}

// podName in the form that Deployments give: the tests of weights cut the last two parts off. A Deployment made again has pods of
// other names.
func podName(deployment appsv1.Deployment, index int) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(deployment.UID))
	return fmt.Sprintf("%s-%08x-%05d", deployment.Name, hash.Sum32(), index)
}

func podKey(namespace, name string) storage.Key {
	return storage.Key{Plural: "pods", Namespace: namespace, Name: name}
}

func decode(object storage.Object, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object, into)
}

func encode(object any) storage.Object {
	encoded, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(err) // a Kubernetes type always has a JSON form
	}
	return encoded
}
