// The table of every opcode form the interpreter knows; what is not in it is
// refused.
#ifndef ALTGRAD_TESTS_PTX_REGISTRY_H
#define ALTGRAD_TESTS_PTX_REGISTRY_H

#include "Program.h"

namespace ptx {

class Registry {
public:
  static const Registry &get();

  const Form *find(const std::string &name) const;
  const std::map<std::string, Form> &all() const { return forms; }
  /// Why `name` is not in the table, for the error message.
  std::string explainMissing(const std::string &name) const;

  /// `slots` lists the operands in order: a width (`32`, `f32`, `p` for
  /// predicates), `@` address, `L` label, `T` branch table; prefix `=` marks a
  /// destination, `?` an optional operand, `!` one that may be negated; suffix
  /// `*n` a vector in braces, `+` a register that may be wider, `&` one that may name a
  /// variable, `|` one that takes a second predicate.
  void add(const std::string &name, Handler run, const std::string &slots,
           const Traits &traits = {});

private:
  Registry();
  const std::vector<Slot> *slotsOf(const std::string &text);

  std::map<std::string, Form> forms;
  std::map<std::string, std::vector<Slot>> signatures;
};

// Each family of opcodes registers itself; one function per source file.
void addFloatForms(Registry &);
void addApproxForms(Registry &);
void addCompareForms(Registry &);
void addConvertForms(Registry &);
void addIntegerForms(Registry &);
void addBitForms(Registry &);
void addMoveForms(Registry &);
void addMemoryForms(Registry &);
void addAtomicForms(Registry &);
void addWarpForms(Registry &);
void addControlForms(Registry &);
void addMatrixForms(Registry &);
void addAsyncForms(Registry &);

} // namespace ptx

#endif
