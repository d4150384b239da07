// cp.async: copies from global to shared memory that are done when their
// thread has waited for them, and that others may read behind a barrier after
// that.
#include "Machine.h"
#include "Registry.h"

#include <cstring>

using namespace ptx;

namespace {

enum Caching : uint8_t { AllLevels, SecondLevel };

/// The bytes are read at once, which is the earliest that the ISA allows.
void readSource(Thread &t, uint64_t from, unsigned bytes, uint8_t *to) {
  for (unsigned piece = 16; piece; piece /= 2)
    if (bytes & piece) {
      Region &region = checkAccess(t, {Space::Global, from, piece, false});
      region.checkInitialised(from, piece);
      region.read(from, piece, to);
      from += piece;
      to += piece;
    }
}

void copy(Thread &t, const Instruction &i) {
  const Operand *o = i.operands; // destination, source, size, bytes of source
  uint64_t bytes = read(t, o[2]);
  bool isSize =
      bytes == 16 || (i.form->traits.operation == AllLevels &&
                      (bytes == 4 || bytes == 8));
  if (o[2].kind != Operand::Immediate || !isSize)
    throw Fault{FaultKind::Undefined,
                "a copy of " + std::to_string(bytes) + " bytes"};
  uint64_t given = o[3].kind == Operand::None ? bytes : read(t, o[3]);
  if (given > bytes)
    throw Fault{FaultKind::Undefined, std::to_string(given) +
                                          " bytes of a source for a copy of " +
                                          std::to_string(bytes)};
  uint64_t from = addressOf(t, o[1]), to = addressOf(t, o[0]);
  if (from % bytes)
    throw Fault{FaultKind::Misaligned, "a copy of " + std::to_string(bytes) +
                                           " bytes from " + hex(from)};
  AsyncCopy copy{nullptr, to, unsigned(bytes), t.groups, {}};
  readSource(t, from, unsigned(given), copy.data); // zeros behind that
  copy.region = &checkAccess(t, {Space::Shared, to, unsigned(bytes), true,
                                 Strength::Weak, /*isPending=*/true});
  t.copies.push_back(copy);
}

void commit(Thread &t, const Instruction &) { ++t.groups; }

/// Does the copies of groups before `end`.
void finish(Thread &t, const Instruction &i, uint32_t end) {
  t.clock.now.line = i.line;
  size_t left = 0;
  for (const AsyncCopy &copy : t.copies) {
    if (copy.group >= end) {
      t.copies[left++] = copy;
      continue;
    }
    copy.region->write(copy.address, copy.bytes, copy.data);
    copy.region->settle(copy.address, copy.bytes, t.clock.now);
  }
  t.copies.resize(left);
}

void waitGroup(Thread &t, const Instruction &i) {
  uint64_t pending = read(t, i.operands[0]);
  finish(t, i, pending < t.groups ? t.groups - uint32_t(pending) : 0);
}

void waitAll(Thread &t, const Instruction &i) {
  finish(t, i, ++t.groups);
}

} // namespace

void ptx::addAsyncForms(Registry &r) {
  Traits k;
  k.space = Space::Shared;
  for (const char *space : {".shared", ".shared::cta"})
    for (const char *ahead : {"", ".L2::64B", ".L2::128B", ".L2::256B"})
      for (uint8_t caching : {AllLevels, SecondLevel}) {
        k.operation = caching;
        r.add(std::string(caching == AllLevels ? "cp.async.ca" : "cp.async.cg") +
                  space + ".global" + ahead,
              copy, "@ @ 32 ?32", k);
      }
  r.add("cp.async.commit_group", commit, "");
  r.add("cp.async.wait_group", waitGroup, "32");
  r.add("cp.async.wait_all", waitAll, "");
}
