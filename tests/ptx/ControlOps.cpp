// Control flow, barriers and fences.
#include "Machine.h"
#include "Registry.h"

using namespace ptx;

namespace {

void branch(Thread &t, const Instruction &i) { t.pc = i.target; }

void branchIndexed(Thread &t, const Instruction &i) {
  const auto &table = t.block->machine->kernel.branchTables[i.target];
  uint64_t index = read(t, i.operands[0]);
  if (index >= table.size())
    throw Fault{FaultKind::Undefined, "index " + std::to_string(index) +
                                          " of a branch table of " +
                                          std::to_string(table.size())};
  t.pc = table[index];
}

// ret and exit are the same: there are no calls.
void leave(Thread &t, const Instruction &) {
  if (!t.clock.waited)
    throw Fault{FaultKind::Overlap,
                "the thread exits and has not waited for the launch before: "
                "the next one may begin while that goes on"};
  t.state = Thread::Exited;
}

void trap(Thread &, const Instruction &) {
  throw Fault{FaultKind::Trap, "the kernel trapped"};
}

void waitForLaunch(Thread &t, const Instruction &) {
  if (t.block->machine->isAhead) {
    t.state = Thread::AtLaunch;
    return;
  }
  t.clock.waited = true;
  emptyCache(t);
}

/// More than two launches at a time are not simulated.
void letNextBegin(Thread &t, const Instruction &) {
  if (!t.clock.waited)
    throw Fault{FaultKind::Overlap,
                "the next launch is let in before the thread has waited for "
                "the launch before: three would overlap"};
}

void sleep(Thread &t, const Instruction &i) { read(t, i.operands[0]); }

template <bool Waits, bool Aligned>
void barrier(Thread &t, const Instruction &i) {
  // Number and count may come from registers; the block checks them.
  uint32_t number = uint32_t(read(t, i.operands[0]));
  uint32_t count = t.block->machine->threadsPerBlock();
  if (i.operands[1].kind != Operand::None)
    count = uint32_t(read(t, i.operands[1]));
  t.block->arriveAtBarrier(t, number, count, Waits, Aligned);
}

/// A fence orders what is before it with what is after it, both ways.
void fence(Thread &t, const Instruction &i) {
  bool isCtaOnly = i.form->traits.scope == Scope::Cta;
  Messages::acquire(t.clock, isCtaOnly);
  Messages::release(t.clock, isCtaOnly);
  if (!isCtaOnly)
    emptyCache(t);
}

} // namespace

void ptx::addControlForms(Registry &r) {
  r.add("bra", branch, "L");
  r.add("bra.uni", branch, "L");
  r.add("brx.idx", branchIndexed, "32 T");
  r.add("brx.idx.uni", branchIndexed, "32 T");
  r.add("ret", leave, "");
  r.add("ret.uni", leave, "");
  r.add("exit", leave, "");
  r.add("trap", trap, "");
  r.add("nanosleep.u32", sleep, "32");
  r.add("griddepcontrol.wait", waitForLaunch, "");
  r.add("griddepcontrol.launch_dependents", letNextBegin, "");

  // Two spellings of one barrier: "bar" is aligned, "barrier" only if it says
  // so.
  for (const char *name : {"bar", "bar.cta"}) {
    r.add(std::string(name) + ".sync", barrier<true, true>, "32 ?32");
    r.add(std::string(name) + ".arrive", barrier<false, true>, "32 32");
  }
  for (const char *name : {"barrier", "barrier.cta"}) {
    r.add(std::string(name) + ".sync", barrier<true, false>, "32 ?32");
    r.add(std::string(name) + ".sync.aligned", barrier<true, true>, "32 ?32");
    r.add(std::string(name) + ".arrive", barrier<false, false>, "32 32");
    r.add(std::string(name) + ".arrive.aligned", barrier<false, true>, "32 32");
  }

  const std::pair<const char *, Scope> scopes[] = {
      {".cta", Scope::Cta}, {".gpu", Scope::Gpu}, {".sys", Scope::Gpu}};
  for (auto [name, scope] : scopes) {
    Traits k;
    k.scope = scope;
    r.add(std::string("fence.acq_rel") + name, fence, "", k);
    r.add(std::string("fence.sc") + name, fence, "", k);
  }
  const std::pair<const char *, Scope> levels[] = {
      {".cta", Scope::Cta}, {".gl", Scope::Gpu}, {".sys", Scope::Gpu}};
  for (auto [name, scope] : levels) {
    Traits k;
    k.scope = scope;
    r.add(std::string("membar") + name, fence, "", k);
  }
}
