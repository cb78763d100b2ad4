package kubelet

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	suiteModule = "sigs.k8s.io/gateway-api/conformance" // go.mod fixes its version
	echoPackage = suiteModule + "/echo-basic"
)

// A container has a network of its own, so the echo server listens on all addresses. Here many share one network: each listens on its
// pod's address. These are the only places that differ from the published source; the rest is compiled as it is.
var listening = map[string][2]string{
	"echo-basic.go":                  {`fmt.Sprintf(":%s"`, `fmt.Sprintf(os.Getenv("POD_IP")+":%s"`},
	"grpc/grpc.go":                   {`fmt.Sprintf("0.0.0.0:%d"`, `fmt.Sprintf(os.Getenv("POD_IP")+":%d"`},
	"tcpserver/tcpserver.go":         {`fmt.Sprintf(":%s", s.t`, `fmt.Sprintf(os.Getenv("POD_IP")+":%s", s.t`},
	"udpechoserver/udpechoserver.go": {`":"+port`, `os.Getenv("POD_IP")+":"+port`},
}

// BuildEcho compiles the echo server into the user's cache and returns its path. Needs `go` on PATH (a test has it) and a working
// directory inside this module.
func BuildEcho() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	module, err := goOutput("list", "-m", "-f", "{{.Version}}\n{{.Dir}}", suiteModule)
	version, source, ok := strings.Cut(module, "\n")
	if err != nil || !ok {
		return "", fmt.Errorf("no source of %s: %w", suiteModule, err)
	}
	program := filepath.Join(cache, "portolan", "echo-basic-"+version+"-1") // count up with `listening`
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	work, err := os.MkdirTemp("", "portolan-echo-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := copySource(source, filepath.Join(work, "conformance")); err != nil {
		return "", err
	}
	modfile, err := replaceModule(work)
	if err != nil {
		return "", err
	}
	staged := fmt.Sprintf("%s.%d", program, os.Getpid())
	if _, err := goOutput("build", "-modfile", modfile, "-o", staged, echoPackage); err != nil {
		return "", err
	}
	return program, os.Rename(staged, program)
}

// copySource of the echo server into a module of its own, and change where it listens. (`go build -overlay` would need no copy, but
// refuses files of the module cache.)
func copySource(source, into string) error {
	if err := os.CopyFS(filepath.Join(into, "echo-basic"), os.DirFS(filepath.Join(source, "echo-basic"))); err != nil {
		return err
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(into, file), text, 0o600); err != nil {
			return err
		}
	}
	for file, change := range listening {
		path := filepath.Join(into, "echo-basic", file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte(change[0])) {
			return fmt.Errorf("echo-basic/%s does not contain %s: the echo server listens in another way now, adapt kubelet/echo.go", file, change[0])
		}
		text = bytes.ReplaceAll(text, []byte(change[0]), []byte(change[1]))
		// Files of the module cache are read-only, and so are their copies.
		if err := os.Remove(path); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// replaceModule writes this module's go.mod with the suite's replaced by the copy in work.
func replaceModule(work string) (string, error) {
	original, err := goOutput("env", "GOMOD")
	if err != nil {
		return "", err
	}
	modfile := filepath.Join(work, "go.mod")
	replacement := fmt.Sprintf("\nreplace %s => %s\n", suiteModule, filepath.Join(work, "conformance"))
	for from, to := range map[string]string{original: modfile, strings.TrimSuffix(original, ".mod") + ".sum": filepath.Join(work, "go.sum")} {
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if to == modfile {
			text = append(text, replacement...)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
	}
	return modfile, nil
}

func goOutput(arguments ...string) (string, error) {
	command := exec.Command("go", arguments...)
	var problem bytes.Buffer
	command.Stderr = &problem
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, problem.String())
	}
	return strings.TrimSpace(string(output)), nil
}
