package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Directory that Portolan watches: a file per object, written beside its place and renamed, as configuration management does.
type Directory struct {
	Path string
}

func (d *Directory) write(kind *Kind, key Key, object Object) error {
	if !kind.Manifest {
		return nil
	}
	text, err := yaml.Marshal(manifest(object))
	if err != nil {
		return err
	}
	path := d.file(kind, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	staged := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	if err := os.WriteFile(staged, text, 0o600); err != nil {
		return err
	}
	return os.Rename(staged, path)
}

func (d *Directory) remove(kind *Kind, key Key) {
	if kind.Manifest {
		_ = os.Remove(d.file(kind, key))
	}
}

func (d *Directory) file(kind *Kind, key Key) string {
	name := strings.ToLower(kind.Kind) + "-" + key.Name
	if len(name) > 200 { // a name may have 253 characters, a file's name 255 with all that surrounds it
		sum := sha256.Sum256([]byte(name))
		name = name[:150] + "-" + hex.EncodeToString(sum[:8])
	}
	return filepath.Join(d.Path, key.Namespace, name+".yaml")
}

// manifest is an object as a user would have written it, plus the metadata that decides precedence and observedGeneration.
func manifest(object Object) Object {
	written := Object{}
	for field, value := range object {
		switch field {
		case "status":
		case "metadata":
			kept := Object{}
			metadata, _ := value.(map[string]any)
			for _, name := range []string{"name", "namespace", "labels", "annotations", "generation", "uid", "creationTimestamp"} {
				if value, ok := metadata[name]; ok {
					kept[name] = value
				}
			}
			written[field] = kept
		default:
			written[field] = value
		}
	}
	return written
}
