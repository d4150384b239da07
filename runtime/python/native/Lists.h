// What ops/_look.py asks of a list of tensors.
#ifndef ALTGRAD_NATIVE_LISTS_H
#define ALTGRAD_NATIVE_LISTS_H

#include <torch/csrc/utils/pybind.h>

namespace altgrad::native {

// (kinds, numels, pointers) as Look has them, of tensors that are each one run
// of elements, all of one device, within their storages and, if they are to be
// `written`, apart; None for any other list.
py::object look(const py::list &tensors, bool written);

// Tells autograd that these were written.
void raiseVersions(const py::list &tensors);

} // namespace altgrad::native

#endif // ALTGRAD_NATIVE_LISTS_H
