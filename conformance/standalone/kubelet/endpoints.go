package kubelet

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"portolan.dev/conformance/standalone/storage"
)

const managedBy = "portolan-conformance"

// endpoints brings the EndpointSlices of Services with a selector up to date; others belong to whoever made them.
func (k *Kubelet) endpoints() {
	wanted := map[storage.Key]storage.Object{}
	pods := k.sorted()
	for _, object := range k.store.List("", "services", "") {
		var service corev1.Service
		if decode(object, &service) != nil || len(service.Spec.Selector) == 0 {
			continue
		}
		slice := slice(service, pods)
		wanted[storage.Key{Group: "discovery.k8s.io", Plural: "endpointslices", Namespace: slice.Namespace, Name: slice.Name}] = encode(&slice)
	}
	for _, object := range k.store.List("discovery.k8s.io", "endpointslices", "") {
		var existing discoveryv1.EndpointSlice
		if decode(object, &existing) != nil || existing.Labels[discoveryv1.LabelManagedBy] != managedBy {
			continue
		}
		key := storage.Key{Group: "discovery.k8s.io", Plural: "endpointslices", Namespace: existing.Namespace, Name: existing.Name}
		replacement, ok := wanted[key]
		delete(wanted, key)
		switch {
		case !ok:
			_ = k.store.Delete(key)
		case !equal(object["endpoints"], replacement["endpoints"]) || !equal(object["ports"], replacement["ports"]):
			_, _ = k.store.Replace(key, replacement, false)
		}
	}
	for key, object := range wanted {
		_, _ = k.store.Create(key, object)
	}
}

// slice of a Service: its ready pods at the target ports.
func slice(service corev1.Service, pods []*pod) discoveryv1.EndpointSlice {
	slice := discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace,
			Name:      service.Name + "-managed",
			Labels:    map[string]string{discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: managedBy},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, port := range service.Spec.Ports {
		protocol := port.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		target := port.TargetPort.IntVal
		if port.TargetPort.Type == intstr.String || target == 0 { // no manifest of the suite names a container's port
			target = port.Port
		}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &target, Protocol: &protocol, AppProtocol: port.AppProtocol})
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for _, pod := range pods {
		status := pod.status()
		ready := status.Conditions[0].Status == corev1.ConditionTrue
		if pod.object.Namespace != service.Namespace || !selector.Matches(labels.Set(pod.object.Labels)) {
			continue
		}
		serving, terminating := ready, false
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{status.PodIP},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
			NodeName:   &pod.object.Spec.NodeName,
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.object.Namespace, Name: pod.object.Name, UID: pod.object.UID},
		})
	}
	return slice
}

// equal treats a list that is absent and one that is empty alike.
func equal(a, b any) bool {
	if list, ok := a.([]any); ok && len(list) == 0 {
		a = nil
	}
	if list, ok := b.([]any); ok && len(list) == 0 {
		b = nil
	}
	return reflect.DeepEqual(a, b)
}
