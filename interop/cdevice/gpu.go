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

// The first GPU of the machine, for interop/cdevice_cuda.py.
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
	return errorText(err)
}

//export close_gpu
func close_gpu() *C.char { return errorText(driver.Close()) }

//export to_gpu
func to_gpu(array, schema, arrayOut, schemaOut unsafe.Pointer) *C.char {
	return errorText(pass(array, schema, arrayOut, schemaOut, gpu))
}

//export from_gpu
func from_gpu(array, schema, arrayOut, schemaOut unsafe.Pointer) *C.char {
	return errorText(pass(array, schema, arrayOut, schemaOut, arrowbuf.CPU()))
}

//export echo_gpu
func echo_gpu(array, schema, arrayOut, schemaOut unsafe.Pointer) *C.char {
	return errorText(pass(array, schema, arrayOut, schemaOut, gpu))
}

// pass imports an array, copies it to dev unless it is there, and exports it.
func pass(array, schema, arrayOut, schemaOut unsafe.Pointer, dev arrowbuf.Device) error {
	if gpu == nil {
		return errors.New("open_gpu was not called")
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
