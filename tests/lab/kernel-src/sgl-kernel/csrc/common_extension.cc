// The Python side of common_ops, in CPython's stable ABI.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstring>
#include <vector>

#include "sgl_kernel_ops.h"

namespace {

PyObject* runtime_version(PyObject*, PyObject*) {
  int version = 0;
  const cudaError_t error = cudaRuntimeGetVersion(&version);
  if (error != cudaSuccess) {
    PyErr_SetString(PyExc_RuntimeError, cudaGetErrorString(error));
    return nullptr;
  }
  return PyLong_FromLong(version);
}

PyObject* flavour(PyObject*, PyObject*) { return PyUnicode_FromString(SGL_KERNEL_FLAVOUR); }

PyObject* peer_flag_raise(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLong(sgl_kernel::peer_flag_raise());
}

// bytes of float32 -> (bytes of FP4 pairs, bytes of FP8 scales); needs a card
PyObject* nvfp4_quant(PyObject*, PyObject* argument) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(argument, &data, &size) != 0) return nullptr;
  const size_t n = static_cast<size_t>(size) / sizeof(float);
  if (n == 0 || n % 16 != 0 || n * sizeof(float) != static_cast<size_t>(size)) {
    PyErr_SetString(PyExc_ValueError, "expected float32 values, their number a multiple of 16");
    return nullptr;
  }
  float* in = nullptr;
  uint8_t* out = nullptr;
  const size_t scales_at = n / 2;
  std::vector<uint8_t> host(n / 2 + n / 16);
  cudaError_t error = cudaMalloc(reinterpret_cast<void**>(&in), n * sizeof(float));
  if (error == cudaSuccess) error = cudaMalloc(reinterpret_cast<void**>(&out), host.size());
  if (error == cudaSuccess) error = cudaMemcpy(in, data, n * sizeof(float), cudaMemcpyHostToDevice);
  if (error == cudaSuccess) error = sgl_kernel::nvfp4_quant(in, out, out + scales_at, n, nullptr);
  if (error == cudaSuccess) error = cudaMemcpy(host.data(), out, host.size(), cudaMemcpyDeviceToHost);
  cudaFree(in);
  cudaFree(out);
  if (error != cudaSuccess) {
    PyErr_SetString(PyExc_RuntimeError, cudaGetErrorString(error));
    return nullptr;
  }
  PyObject* packed = PyBytes_FromStringAndSize(reinterpret_cast<char*>(host.data()), static_cast<Py_ssize_t>(scales_at));
  PyObject* scales = PyBytes_FromStringAndSize(reinterpret_cast<char*>(host.data() + scales_at),
                                               static_cast<Py_ssize_t>(host.size() - scales_at));
  PyObject* pair = (packed && scales) ? PyTuple_Pack(2, packed, scales) : nullptr;
  Py_XDECREF(packed);
  Py_XDECREF(scales);
  return pair;
}

PyMethodDef methods[] = {
    {"runtime_version", runtime_version, METH_NOARGS, "Version of the CUDA runtime, such as 13000."},
    {"flavour", flavour, METH_NOARGS, "The folder this build belongs to: sm90 or sm100."},
    {"peer_flag_raise", peer_flag_raise, METH_NOARGS, "Raise the peer flag and return its value."},
    {"nvfp4_quant", nvfp4_quant, METH_O, "Quantize float32 bytes to NVFP4 on the current device."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "common_ops", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_common_ops() { return PyModule_Create(&module); }
