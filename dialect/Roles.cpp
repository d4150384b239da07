// The words of roles.
#include "dialect/Roles.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

static constexpr StringLiteral words[] = {
#define ALTGRAD_ROLE(word, WORD) #word,
    ALTGRAD_EVERY_ROLE(ALTGRAD_ROLE)
#undef ALTGRAD_ROLE
};

StringRef altgrad::stringifyRole(Role role) { return words[unsigned(role)]; }

std::optional<Role> altgrad::symbolizeRole(StringRef word) {
  const StringLiteral *found = llvm::find(words, word);
  return found == std::end(words) ? std::nullopt : std::optional(Role(found - words));
}

bool altgrad::isListRole(Role role) {
#define ALTGRAD_ROLE(word, WORD) role == Role::word ||
  return ALTGRAD_LIST_ROLES(ALTGRAD_ROLE) false;
#undef ALTGRAD_ROLE
}

std::string altgrad::listRoles(ArrayRef<Role> roles) { return llvm::join(llvm::map_range(roles, stringifyRole), ", "); }

FailureOr<Role> FieldParser<Role>::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Role> role = symbolizeRole(word);
  if (!role)
    return parser.emitError(loc) << "unknown role '" << word << "'";
  return *role;
}
