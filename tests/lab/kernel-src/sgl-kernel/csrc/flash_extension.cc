#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace {
PyMethodDef methods[] = {{nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "flash_ops", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
}  // namespace

PyMODINIT_FUNC PyInit_flash_ops() { return PyModule_Create(&module); }
