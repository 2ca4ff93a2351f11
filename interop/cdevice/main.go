// Command cdevice is a shared library for interop/cdevice.py. It imports Arrow structs
// of another library and exports them again.
//
//	go build -buildmode=c-shared -o libcdevice.so ./interop/cdevice
package main

// #include <stdlib.h>
import "C"

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/cdevice"
)

func main() {}

// errorText returns the text of an error, which the caller in C frees, or nil.
func errorText(err error) *C.char {
	if err == nil {
		return nil
	}
	return C.CString(err.Error())
}

//export echo_array
func echo_array(array, schema, arrayOut, schemaOut unsafe.Pointer) *C.char {
	field, err := cdevice.ImportField((*cdevice.Schema)(schema))
	if err != nil {
		(*cdevice.DeviceArray)(array).Release()
		return errorText(err)
	}
	arr, err := cdevice.ImportArray((*cdevice.DeviceArray)(array), field.Type)
	if err != nil {
		return errorText(err)
	}
	defer arr.Release()
	if err := cdevice.ExportField(field, (*cdevice.Schema)(schemaOut)); err != nil {
		return errorText(err)
	}
	return errorText(cdevice.ExportArray(arr, arrowbuf.CPU(), (*cdevice.DeviceArray)(arrayOut)))
}

//export echo_batch
func echo_batch(array, schema, arrayOut, schemaOut unsafe.Pointer) *C.char {
	s, err := cdevice.ImportSchema((*cdevice.Schema)(schema))
	if err != nil {
		(*cdevice.DeviceArray)(array).Release()
		return errorText(err)
	}
	return errorText(echoBatch(s, array, arrayOut, schemaOut))
}

func echoBatch(schema *arrow.Schema, array, arrayOut, schemaOut unsafe.Pointer) error {
	batch, err := cdevice.ImportBatch((*cdevice.DeviceArray)(array), schema)
	if err != nil {
		return err
	}
	defer batch.Release()
	if err := cdevice.ExportSchema(schema, (*cdevice.Schema)(schemaOut)); err != nil {
		return err
	}
	return cdevice.ExportBatch(batch, arrowbuf.CPU(), (*cdevice.DeviceArray)(arrayOut))
}

//export echo_stream
func echo_stream(in, out unsafe.Pointer) *C.char {
	reader, err := cdevice.ImportStream((*cdevice.DeviceStream)(in))
	if err != nil {
		return errorText(err)
	}
	defer reader.Release()
	return errorText(cdevice.ExportStream(reader, arrowbuf.CPU(), (*cdevice.DeviceStream)(out)))
}

//export echo_cpu_batch
func echo_cpu_batch(array, schema, arrayOut, schemaOut unsafe.Pointer) *C.char {
	s, err := cdevice.ImportSchema((*cdevice.Schema)(schema))
	if err != nil {
		(*cdevice.Array)(array).Release()
		return errorText(err)
	}
	batch, err := cdevice.ImportCPUBatch((*cdevice.Array)(array), s)
	if err != nil {
		return errorText(err)
	}
	defer batch.Release()
	if err := cdevice.ExportSchema(s, (*cdevice.Schema)(schemaOut)); err != nil {
		return errorText(err)
	}
	return errorText(cdevice.ExportCPUBatch(batch, (*cdevice.Array)(arrayOut)))
}

//export echo_cpu_stream
func echo_cpu_stream(in, out unsafe.Pointer) *C.char {
	reader, err := cdevice.ImportCPUStream((*cdevice.Stream)(in))
	if err != nil {
		return errorText(err)
	}
	defer reader.Release()
	return errorText(cdevice.ExportCPUStream(reader, (*cdevice.Stream)(out)))
}
