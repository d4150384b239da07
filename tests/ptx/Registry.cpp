// Builds the table of forms once and explains what is missing from it.
#include "Registry.h"

#include <sstream>

using namespace ptx;

const Registry &Registry::get() {
  static const Registry registry;
  return registry;
}

Registry::Registry() {
  addFloatForms(*this);
  addApproxForms(*this);
  addCompareForms(*this);
  addConvertForms(*this);
  addIntegerForms(*this);
  addBitForms(*this);
  addMoveForms(*this);
  addMemoryForms(*this);
  addAtomicForms(*this);
  addWarpForms(*this);
  addControlForms(*this);
  addMatrixForms(*this);
  addAsyncForms(*this);
}

const Form *Registry::find(const std::string &name) const {
  auto it = forms.find(name);
  return it == forms.end() ? nullptr : &it->second;
}

// The notation is explained at Registry::add; a mistake stops the first test.
static Slot parseSlot(const std::string &token) {
  Slot slot;
  size_t i = 0;
  for (;; ++i) {
    if (token[i] == '=')
      slot.isDestination = true;
    else if (token[i] == '?')
      slot.isOptional = true;
    else if (token[i] == '!')
      slot.mayNegate = true;
    else
      break;
  }
  char c = token[i];
  if (c == '@' || c == 'L' || c == 'T' || c == 'p') {
    slot.kind = c == '@'   ? SlotKind::Address
                : c == 'L' ? SlotKind::Label
                : c == 'T' ? SlotKind::Table
                           : SlotKind::Predicate;
    slot.bits = c == 'p' ? 1 : 64;
    ++i;
  } else {
    slot.isFloat = c == 'f';
    size_t used = 0;
    slot.bits = uint8_t(std::stoi(token.substr(i + slot.isFloat), &used));
    i += used + slot.isFloat;
  }
  for (; i < token.size(); ++i) {
    if (token[i] == '+')
      slot.mayBeWider = true;
    else if (token[i] == '&')
      slot.mayBeAddress = true;
    else if (token[i] == '|')
      slot.isPair = true;
    else if (token[i] == '*') {
      slot.isVector = true;
      slot.count = uint8_t(token[++i] - '0');
    }
    else
      throw std::logic_error("bad slot '" + token + "'");
  }
  return slot;
}

const std::vector<Slot> *Registry::slotsOf(const std::string &text) {
  // Thousands of forms share some hundred signatures.
  auto [it, isNew] = signatures.try_emplace(text);
  if (isNew) {
    std::istringstream in(text);
    for (std::string token; in >> token;)
      it->second.push_back(parseSlot(token));
  }
  return &it->second;
}

void Registry::add(const std::string &name, Handler run,
                   const std::string &slots, const Traits &traits) {
  bool isNew =
      forms.try_emplace(name, Form{name, run, traits, slotsOf(slots)}).second;
  if (!isNew)
    throw std::logic_error("form '" + name + "' registered twice");
}

std::string Registry::explainMissing(const std::string &name) const {
  std::string opcode = name.substr(0, name.find('.'));
  auto has = [&](const char *part) {
    return (name + ".").find("." + std::string(part) + ".") !=
           std::string::npos;
  };
  // The map is sorted: forms of one opcode stand together.
  auto next = forms.lower_bound(opcode + ".");
  bool knownOpcode =
      forms.count(opcode) ||
      (next != forms.end() &&
       next->first.compare(0, opcode.size() + 1, opcode + ".") == 0);
  // From the most helpful reason to the least.
  if (has("approx") || has("full"))
    return "'" + name + "' is refused: its result is not exactly defined";
  if (!knownOpcode)
    return "unknown opcode '" + opcode + "' in '" + name + "'";
  bool isFloat = has("f32") || has("f64") || has("f16") || has("f16x2") ||
                 has("bf16") || has("bf16x2");
  if (isFloat) {
    // Inserting the rounding makes a known form: then only that is missing.
    std::string rounded = opcode + ".rn" + name.substr(opcode.size());
    if (forms.count(rounded))
      return "'" + name + "' is refused: it states no rounding, write '" +
             rounded + "'";
    if ((opcode == "atom" || opcode == "red") && has("add"))
      return "'" + name +
             "' is refused: the result of a float atomic depends on order";
  }
  return "unknown form '" + name + "' of opcode '" + opcode + "'";
}
