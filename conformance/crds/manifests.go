package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// The sources that the CRDs and the manifests are taken from. Nothing is compiled from them, so go.mod does not list them.
const (
	apiModule   = "sigs.k8s.io/gateway-api@v1.6.3"
	suiteModule = "sigs.k8s.io/gateway-api/conformance@v1.6.3"
)

// download gives the directory where Go keeps the sources of a module, which it fetches and checks where it has not yet.
func download(module string) (string, error) {
	output, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", module, err, output)
	}
	var result struct{ Dir string }
	if err := json.Unmarshal(output, &result); err != nil {
		return "", err
	}
	return result.Dir, nil
}

// manifests reads every object in the YAML files below the directories, in the order of their paths.
func manifests(directories ...string) ([]map[string]any, error) {
	var objects []map[string]any
	for _, directory := range directories {
		err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
			for {
				var object map[string]any
				err := decoder.Decode(&object)
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				if object != nil {
					objects = append(objects, normalise(object).(map[string]any))
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// normalise gives whole numbers the type that an API server's decoder gives them.
func normalise(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			value[key] = normalise(item)
		}
	case []any:
		for index, item := range value {
			value[index] = normalise(item)
		}
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	case int:
		return int64(value)
	}
	return value
}
