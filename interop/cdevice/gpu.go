package main

import "C"

import (
	"errors"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/cdevice"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// The machine's first GPU, for interop/cdevice_cuda.py.
var (
	driver *cudabuf.Driver
	gpu    *cudabuf.Device
)

//export open_gpu
func open_gpu() *C.char {
	var err error
	if driver, err = cudabuf.Open(); err == nil {
		gpu, err = driver.Device(0)
	}
	return answer(err)
}

//export close_gpu
func close_gpu() *C.char { return answer(driver.Close()) }

//export to_gpu
func to_gpu(array, schema, arrayOut, schemaOut unsafe.Pointer) *C.char {
	return answer(pass(array, schema, arrayOut, schemaOut, gpu))
}

//export from_gpu
func from_gpu(array, schema, arrayOut, schemaOut unsafe.Pointer) *C.char {
	return answer(pass(array, schema, arrayOut, schemaOut, arrowbuf.CPU()))
}

//export echo_gpu
func echo_gpu(array, schema, arrayOut, schemaOut unsafe.Pointer) *C.char {
	return answer(pass(array, schema, arrayOut, schemaOut, gpu))
}

// pass imports an array, and exports it from a device, copied there unless it is
// there already.
func pass(array, schema, arrayOut, schemaOut unsafe.Pointer, dev arrowbuf.Device) error {
	if gpu == nil {
		return errors.New("the GPU is not open")
	}
	field, err := cdevice.ImportField((*cdevice.Schema)(schema))
	if err != nil {
		(*cdevice.DeviceArray)(array).Release()
		return err
	}
	arr, err := cdevice.ImportArray((*cdevice.DeviceArray)(array), field.Type, gpu)
	if err != nil {
		return err
	}
	defer arr.Release()
	var there arrow.Array
	if there, err = arrowbuf.CopyArrayTo(arr, dev); err != nil {
		return err
	}
	defer there.Release()
	if err := cdevice.ExportField(field, (*cdevice.Schema)(schemaOut)); err != nil {
		return err
	}
	return cdevice.ExportArray(there, dev, (*cdevice.DeviceArray)(arrayOut))
}
