// Which opcode forms PTX text uses, and which of them no test has exercised.
#ifndef ALTGRAD_TESTS_PTX_COVERAGE_H
#define ALTGRAD_TESTS_PTX_COVERAGE_H

#include "Program.h"

#include <istream>

namespace ptx {

using FormCounts = std::map<std::string, uint64_t>;

/// How often each form stands in the module's text.
FormCounts countForms(const Module &);

/// Reads "form<tab>cases" lines, as run-forms.py writes them; `#` comments.
/// Throws std::runtime_error with the line on anything else.
FormCounts readTested(std::istream &);

/// Forms of `used` with fewer than `least` cases in `tested`.
std::vector<std::string> untested(const FormCounts &used,
                                  const FormCounts &tested, uint64_t least);

} // namespace ptx

#endif
