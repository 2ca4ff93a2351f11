package cudabuf

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// OpenDevice returns the device of a name, the same one on every call:
//
//	cpu                  the host
//	cuda, cuda:N         the GPU of ordinal 0 or N
//	cuda_managed:N       the same with managed memory, see Driver.ManagedDevice
//	GPU-..., MIG-...     the GPU, or the part of one, with a UUID, as nvidia-smi lists it
//	auto                 the GPU of ordinal 0, or the host on a machine without a GPU
//
// The first call that names a GPU opens a driver that all calls share, see [Open]. It
// stays open until [CloseDevices] or the end of the program.
//
// The error is ErrInvalidName for another name, ErrNoDriver without a driver and
// ErrNoDevice without such a GPU. A driver that is there and fails is an error for auto
// too.
func OpenDevice(name string) (arrowbuf.Device, error) { return shared.device(name) }

// CloseDevices closes the driver of [OpenDevice], if it is open. While a buffer of it is
// in use, it does nothing and returns an error that lists what is in use, see
// [Driver.Close]. A later OpenDevice opens a new driver.
func CloseDevices() error { return shared.close() }

// CheckDeviceName returns an error wrapping ErrInvalidName unless OpenDevice knows the
// form of the name. It opens nothing.
func CheckDeviceName(name string) error {
	_, err := parseDeviceName(name)
	return err
}

// DeviceByName is [OpenDevice] with the GPUs of this driver. For auto it returns the
// host if the driver has no device.
func (d *Driver) DeviceByName(name string) (arrowbuf.Device, error) {
	n, err := parseDeviceName(name)
	if err != nil {
		return nil, err
	}
	if n.kind == "cpu" || n.kind == "auto" && d.count == 0 {
		return arrowbuf.CPU(), nil
	}
	var dev *Device
	if n.kind == "uuid" {
		dev, err = d.DeviceByUUID(n.uuid)
	} else {
		dev, err = d.device(n.ordinal, n.kind == arrowbuf.DeviceCUDAManaged.String())
	}
	if err != nil {
		return nil, err
	}
	return dev, nil
}

// deviceName is a parsed name.
type deviceName struct {
	kind    string // cpu, auto, uuid or the name of a device type
	ordinal int
	uuid    UUID
}

func parseDeviceName(name string) (deviceName, error) {
	if digits, ok := strings.CutPrefix(strings.Replace(name, "MIG-", "GPU-", 1), "GPU-"); ok {
		id, err := ParseUUID(digits)
		return deviceName{kind: "uuid", uuid: id}, err
	}
	kind, digits, numbered := strings.Cut(name, ":")
	n := deviceName{kind: kind}
	valid := !numbered
	switch kind {
	case "cpu", "auto":
	case arrowbuf.DeviceCUDA.String(), arrowbuf.DeviceCUDAManaged.String():
		if ordinal, err := strconv.ParseUint(digits, 10, 31); numbered && err == nil {
			n.ordinal, valid = int(ordinal), true
		}
	default:
		valid = false
	}
	if !valid {
		return deviceName{}, fmt.Errorf("device %q: want auto, cpu, cuda, cuda:N, cuda_managed:N or GPU-UUID: %w", name, ErrInvalidName)
	}
	return n, nil
}

// ParseUUID parses the format of UUID.String: 32 hexadecimal digits in five groups.
func ParseUUID(s string) (id UUID, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != len(id) {
		return UUID{}, fmt.Errorf("cudabuf.ParseUUID: got %q, want 32 hexadecimal digits: %w", s, ErrInvalidName)
	}
	copy(id[:], b)
	return id, nil
}

// sharedDriver is the driver of OpenDevice.
type sharedDriver struct {
	mu     sync.Mutex
	driver *Driver // nil while closed
	open   func() (*Driver, error)
}

var shared = sharedDriver{open: Open}

func (s *sharedDriver) device(name string) (arrowbuf.Device, error) {
	n, err := parseDeviceName(name)
	if err != nil {
		return nil, err
	}
	if n.kind == "cpu" {
		return arrowbuf.CPU(), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.driver == nil {
		s.driver, err = s.open()
	}
	if n.kind == "auto" && (errors.Is(err, ErrNoDriver) || errors.Is(err, ErrNoDevice)) {
		return arrowbuf.CPU(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	return s.driver.DeviceByName(name)
}

func (s *sharedDriver) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.driver == nil {
		return nil
	}
	err := s.driver.Close()
	if s.driver.closed { // otherwise memory is in use
		s.driver = nil
	}
	return err
}
