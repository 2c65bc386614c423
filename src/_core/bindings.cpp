// The Python face of the kernels: each kernel file declares what it offers in its own bind_... function; this file only lists them.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_policies(nb::module_& m);  // policies.cpp

NB_MODULE(_core, m) {
    m.doc() = "The hot loops of polvet. Every function here has a slow twin in Python that tests compare it with.";
    bind_policies(m);
}
