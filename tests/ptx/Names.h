// Names inside a kernel: registers, labels and branch tables in nested scopes.
#ifndef ALTGRAD_TESTS_PTX_NAMES_H
#define ALTGRAD_TESTS_PTX_NAMES_H

#include "Program.h"

namespace ptx {

const std::map<std::string, SpecialRegister> &specialRegisters();

struct RegisterName {
  uint32_t index;
  uint8_t bits;
};

/// One `{ }`: inline PTX may reuse names of registers and labels inside.
struct NameScope {
  int parent;
  std::map<std::string, RegisterName> registers;
  std::map<std::string, uint32_t> labels;
  std::map<std::string, uint32_t> tables;
};

/// A label to be looked up when all of them are known.
struct LabelUse {
  uint32_t where;
  std::string name;
  int scope;
  unsigned line;
};

class Names {
public:
  Names() : scopes{{-1, {}, {}, {}}} {}

  /// False when there are unreasonably many.
  bool open();
  void close() { innermostIndex = innermost().parent; }
  bool isOutermost() const { return innermostIndex == 0; }
  int current() const { return innermostIndex; }
  NameScope &innermost() { return scopes[size_t(innermostIndex)]; }

  const RegisterName *findRegister(const std::string &name) const;
  /// Throws ParseError when no scope around the use has the name.
  uint32_t resolve(const LabelUse &use,
                   std::map<std::string, uint32_t> NameScope::*names) const;

private:
  std::vector<NameScope> scopes;
  int innermostIndex = 0;
};

} // namespace ptx

#endif
