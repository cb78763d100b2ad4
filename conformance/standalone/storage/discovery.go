package storage

import (
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// groups answers /apis: what clients map kinds to paths with.
func (s *Store) groups() metav1.APIGroupList {
	versions := map[string][]string{}
	for _, kind := range s.kinds {
		if kind.Group == "" {
			continue
		}
		for _, version := range kind.Versions {
			versions[kind.Group] = insert(versions[kind.Group], version)
		}
	}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for group, served := range versions {
		entry := metav1.APIGroup{Name: group}
		for _, version := range served {
			entry.Versions = append(entry.Versions, metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + version, Version: version})
		}
		entry.PreferredVersion = entry.Versions[0]
		list.Groups = append(list.Groups, entry)
	}
	sort.Slice(list.Groups, func(a, b int) bool { return list.Groups[a].Name < list.Groups[b].Name })
	return list
}

// resources answers /api/v1 and /apis/GROUP/VERSION.
func (s *Store) resources(group, version string) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: groupVersion(group, version),
	}
	verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "update"}
	for _, kind := range s.kinds {
		if kind.Group != group || !contains(kind.Versions, version) {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: kind.Plural, Namespaced: kind.Namespaced, Kind: kind.Kind, Verbs: verbs})
	}
	sort.Slice(list.APIResources, func(a, b int) bool { return list.APIResources[a].Name < list.APIResources[b].Name })
	return list
}

// insert keeps versions in the order v1, v1beta1, v1alpha3: a shorter name is the more stable one.
func insert(versions []string, version string) []string {
	if contains(versions, version) {
		return versions
	}
	versions = append(versions, version)
	sort.Slice(versions, func(a, b int) bool {
		if len(versions[a]) != len(versions[b]) {
			return len(versions[a]) < len(versions[b])
		}
		return versions[a] > versions[b]
	})
	return versions
}

func contains(values []string, value string) bool {
	for _, other := range values {
		if other == value {
			return true
		}
	}
	return false
}
