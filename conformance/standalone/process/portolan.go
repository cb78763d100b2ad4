// Package process starts `portolan run` and reads what it says of its objects.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"portolan.dev/conformance/standalone/storage"
)

// Portolan is a running `portolan run`.
type Portolan struct {
	LogFile string

	admin   string
	process *exec.Cmd
	ended   chan struct{}
	log     *os.File
}

// Start program on a directory of manifests, every Gateway on a loopback address of its own, and wait until it is ready. The folder work
// takes its sockets and its log.
func Start(program, manifests, work string) (*Portolan, error) {
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(work, "portolan.log"))
	if err != nil {
		return nil, err
	}
	p := &Portolan{LogFile: log.Name(), admin: admin, ended: make(chan struct{}), log: log}
	p.process = exec.Command(program, "run", manifests, "--loopback", "--admin", admin,
		"--runtime-dir", filepath.Join(work, "run"), "--envoy-concurrency", "1", "--drain-limit", "0")
	p.process.Env = append(os.Environ(), "NO_COLOR=1")
	p.process.Stdout, p.process.Stderr = log, log
	// Its own group, and an orderly end should the test be killed: Portolan stops its Envoys on SIGTERM, not on SIGKILL.
	p.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.process.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	go func() {
		_ = p.process.Wait()
		close(p.ended)
	}()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-p.ended:
			return nil, fmt.Errorf("%s ended (%s):\n%s", program, p.process.ProcessState, p.Tail(4000))
		default:
		}
		if _, err := p.get("/readyz"); err == nil {
			return p, nil
		}
	}
	p.Stop()
	return nil, fmt.Errorf("%s is not ready after 20 s:\n%s", program, p.Tail(4000))
}

// Objects as the admin endpoint shows them: apiVersion, kind, metadata, status.
func (p *Portolan) Objects() ([]storage.Object, error) {
	text, err := p.get("/objects")
	if err != nil {
		return nil, err
	}
	var list []any
	if err := kjson.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	objects := make([]storage.Object, 0, len(list))
	for _, element := range list {
		if object, ok := element.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// Ended tells whether the process is gone.
func (p *Portolan) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Stop Portolan and, through it, its Envoys: at once, since nothing is left to drain.
func (p *Portolan) Stop() {
	for range 2 { // a second signal cuts the drain short
		_ = p.process.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(2 * time.Second):
		}
	}
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.process.Process.Kill()
		<-p.ended
	}
	_ = p.log.Close()
}

// Tail of the log.
func (p *Portolan) Tail(bytes int) string {
	text, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	if len(text) > bytes {
		text = text[len(text)-bytes:]
	}
	return string(text)
}

func (p *Portolan) get(path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status + ": " + strings.TrimSpace(string(text)))
	}
	return text, err
}

// freeAddress of loopback: free now, and in a moment still so unless somebody else draws the same.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
