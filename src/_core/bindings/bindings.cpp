// The Python face of the kernels: each kernel says what it offers in its own bind_... function; this file only lists them.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace polvet {
void bind_kernel(nb::module_&);
void bind_starts(nb::module_&);
void bind_decide(nb::module_&);
void bind_margins(nb::module_&);
void bind_bound_policy(nb::module_&);
void bind_simulate(nb::module_&);
void bind_fuzz(nb::module_&);
void bind_explicit(nb::module_&);
void bind_boxes(nb::module_&);
void bind_termination(nb::module_&);
void bind_mdp(nb::module_&);
void bind_policies(nb::module_&);
void bind_permissive(nb::module_&);
void bind_shield_table(nb::module_&);
}  // namespace polvet

NB_MODULE(_core, m) {
    m.doc() = "The hot loops of polvet. Every function here has a slow twin in Python that tests compare it with.";
    polvet::bind_kernel(m);
    polvet::bind_starts(m);
    polvet::bind_decide(m);
    polvet::bind_margins(m);
    polvet::bind_mdp(m);
    polvet::bind_policies(m);
    polvet::bind_permissive(m);
    polvet::bind_shield_table(m);
    polvet::bind_bound_policy(m);
    polvet::bind_simulate(m);
    polvet::bind_fuzz(m);
    polvet::bind_explicit(m);
    polvet::bind_boxes(m);
    polvet::bind_termination(m);
}
