// Roles: what an argument of a rule or of a step is.
#ifndef ALTGRAD_DIALECT_ROLES_H
#define ALTGRAD_DIALECT_ROLES_H

#include "altgrad/bundle.h"
#include "mlir/IR/DialectImplementation.h"

namespace altgrad {

// Steps have the words of bundle.h. A rule has some of them, and two that are its own.
#define ALTGRAD_EVERY_ROLE(X) X(none, NONE) ALTGRAD_ROLES(X) X(value, VALUE) X(option, OPTION)

enum class Role {
#define ALTGRAD_ROLE(word, WORD) word,
  ALTGRAD_EVERY_ROLE(ALTGRAD_ROLE)
#undef ALTGRAD_ROLE
};

inline constexpr Role stepRoles[] = {
#define ALTGRAD_ROLE(word, WORD) Role::word,
    ALTGRAD_ROLES(ALTGRAD_ROLE)
#undef ALTGRAD_ROLE
};
inline constexpr Role ruleRoles[] = {Role::param, Role::grad,  Role::state, Role::input,
                                     Role::value, Role::hyper, Role::step,  Role::option};

llvm::StringRef stringifyRole(Role role);
std::optional<Role> symbolizeRole(llvm::StringRef word);
/// Whether it is of lists of tensors, and not of scalars.
bool isListRole(Role role);
/// "param, grad, ..."
std::string listRoles(llvm::ArrayRef<Role> roles);
inline llvm::raw_ostream &operator<<(llvm::raw_ostream &out, Role role) { return out << stringifyRole(role); }

} // namespace altgrad

template <> struct mlir::FieldParser<altgrad::Role> { static FailureOr<altgrad::Role> parse(AsmParser &parser); };

#endif // ALTGRAD_DIALECT_ROLES_H
