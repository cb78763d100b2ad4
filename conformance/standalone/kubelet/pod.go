package kubelet

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod is one replica: a process and what the API says of it.
type pod struct {
	object  corev1.Pod
	process *exec.Cmd

	mutex sync.Mutex
	ready bool
	lines []line
}

// line of a pod's log.
type line struct {
	at   time.Time
	text string
}

// start the program as the pod's only container. Files are the content of its volumes by mount path and file name.
func start(program, work string, object corev1.Pod, files map[string][]byte) (*pod, error) {
	p := &pod{object: object}
	container := object.Spec.Containers[0]
	root := filepath.Join(work, object.Namespace, object.Name)
	for path, content := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(root, path), content, 0o600); err != nil {
			return nil, err
		}
	}
	command := exec.Command(program)
	command.Env = []string{"POD_IP=" + object.Status.PodIP}
	for _, variable := range container.Env {
		value := variable.Value
		if variable.ValueFrom != nil && variable.ValueFrom.FieldRef != nil {
			switch variable.ValueFrom.FieldRef.FieldPath {
			case "metadata.name":
				value = object.Name
			case "metadata.namespace":
				value = object.Namespace
			}
		}
		for _, mount := range container.VolumeMounts {
			if strings.HasPrefix(value, mount.MountPath+"/") {
				value = filepath.Join(root, value)
			}
		}
		command.Env = append(command.Env, variable.Name+"="+value)
	}
	// Should the test be killed, its backends go with it.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return nil, err
	}
	p.process = command
	go p.read(output)
	return p, nil
}

func (p *pod) read(output io.Reader) {
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		p.mutex.Lock()
		p.lines = append(p.lines, line{time.Now(), scanner.Text()})
		p.mutex.Unlock()
	}
	_ = p.process.Wait()
	p.mutex.Lock()
	p.ready = false
	p.lines = append(p.lines, line{time.Now(), fmt.Sprintf("ended: %s", p.process.ProcessState)})
	p.mutex.Unlock()
}

// probe until something listens. A UDP server cannot be asked: its first line of log counts.
func (p *pod) probe(changed func()) {
	for range 500 {
		p.mutex.Lock()
		started := len(p.lines) > 0
		p.mutex.Unlock()
		if started && p.listens() {
			p.mutex.Lock()
			p.ready = true
			p.mutex.Unlock()
			changed()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *pod) listens() bool {
	ports := []string{"3000"} // the echo server's default in its HTTP, gRPC and TCP modes
	for _, variable := range p.object.Spec.Containers[0].Env {
		switch variable.Name {
		case "UDP_ECHO_SERVER":
			return true
		case "TLS_SERVER_CERT":
			ports = append(ports, "8443")
		}
	}
	for _, port := range ports {
		connection, err := net.DialTimeout("tcp", net.JoinHostPort(p.object.Status.PodIP, port), time.Second)
		if err != nil {
			return false
		}
		connection.Close()
	}
	return true
}

// status as the API shows it.
func (p *pod) status() corev1.PodStatus {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	status := p.object.Status
	condition := corev1.ConditionFalse
	if p.ready {
		condition = corev1.ConditionTrue
		status.Phase = corev1.PodRunning
	}
	status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: condition, LastTransitionTime: metav1.NewTime(p.object.CreationTimestamp.Time),
	}}
	return status
}

// log since a moment, at the whole seconds in which the API gives it.
func (p *pod) log(since time.Time) []byte {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var text []byte
	for _, line := range p.lines {
		if !line.at.Before(since) {
			text = append(append(text, line.text...), '\n')
		}
	}
	return text
}

func (p *pod) stop() {
	_ = p.process.Process.Kill()
}
