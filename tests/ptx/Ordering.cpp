// Knowledge travels: release publishes it, a strong write carries it, a strong
// read finds it.
#include "Ordering.h"

using namespace ptx;

/// One number for a block and a thread or warp in it.
static uint64_t key(uint32_t block, uint32_t index) {
  return uint64_t(block) << 32 | index;
}

bool Knowledge::covers(const Stamp &s) const {
  auto b = blocks.find(s.block);
  // Three ways to be known, from the widest to the narrowest.
  if (b != blocks.end() && s.barrierClock < b->second)
    return true;
  auto t = threads.find(key(s.block, s.thread));
  if (t != threads.end() && s.releases < t->second)
    return true;
  auto w = warps.find(key(s.block, s.thread / 32));
  return w != warps.end() && (s.barrierClock < w->second.barrierClock ||
                              (s.barrierClock == w->second.barrierClock &&
                               s.warpClock < w->second.warpClock));
}

KnowledgeRef ptx::merge(const KnowledgeRef &a, const KnowledgeRef &b) {
  if (!a || a == b)
    return b;
  if (!b)
    return a;
  auto result = std::make_shared<Knowledge>(*a);
  for (const auto &[block, clock] : b->blocks) {
    uint32_t &mine = result->blocks[block];
    mine = std::max(mine, clock);
  }
  for (const auto &[thread, releases] : b->threads) {
    uint32_t &mine = result->threads[thread];
    mine = std::max(mine, releases);
  }
  for (const auto &[warp, time] : b->warps) {
    Knowledge::WarpTime &mine = result->warps[warp];
    if (mine.barrierClock < time.barrierClock ||
        (mine.barrierClock == time.barrierClock &&
         mine.warpClock < time.warpClock))
      mine = time;
  }
  return result;
}

bool Clock::isOrderedAfter(const Stamp &s) const {
  if (s.launch != now.launch)
    // An empty stamp has launch 0, which no launch is.
    return true; // nobody, or an earlier launch
  if (s.block == now.block) {
    if (s.thread == now.thread || s.barrierClock < now.barrierClock)
      return true;
    if (s.thread / 32 == now.thread / 32 &&
        s.barrierClock == now.barrierClock && s.warpClock < now.warpClock)
      return true;
  }
  return known && known->covers(s);
}

void Messages::release(Clock &c, bool ctaOnly) {
  auto mine = std::make_shared<Knowledge>();
  // Through its barriers the thread vouches for the block's past, through
  // bar.warp.sync for its warp's, and for all it did itself.
  mine->blocks[c.now.block] = c.now.barrierClock;
  mine->warps[key(c.now.block, c.now.thread / 32)] = {c.now.barrierClock,
                                                      c.now.warpClock};
  mine->threads[key(c.now.block, c.now.thread)] = ++c.now.releases;
  c.released = merge(c.known, mine);
  c.releasedBlockOnly = ctaOnly;
}

void Messages::acquire(Clock &c, bool ctaOnly) {
  c.known = merge(c.known, ctaOnly ? c.observedHere : c.observed);
  c.observedHere.reset();
  if (!ctaOnly)
    c.observed.reset();
}

void Messages::written(uint64_t address, const Clock &c, bool isAtomic) {
  auto it = at.find(address);
  // A store replaces the value, and with it whatever stood behind the old one.
  if (!isAtomic) {
    if (c.released)
      at[address] = {c.released, bool(c.releasedBlockOnly), c.now.block};
    else if (it != at.end())
      at.erase(it);
    return;
  }
  if (!c.released)
    return;
  if (it == at.end()) {
    at[address] = {c.released, bool(c.releasedBlockOnly), c.now.block};
    return;
  }
  // An atomic keeps the release sequence alive: later readers get both.
  it->second.content = merge(it->second.content, c.released);
  it->second.isCtaOnly = it->second.isCtaOnly || c.releasedBlockOnly;
  it->second.block = c.now.block;
}

void Messages::read(uint64_t address, Clock &c) const {
  auto it = at.find(address);
  if (it == at.end() ||
      (it->second.isCtaOnly && it->second.block != c.now.block))
    return;
  c.observed = merge(c.observed, it->second.content);
  if (it->second.block == c.now.block)
    c.observedHere = merge(c.observedHere, it->second.content);
}
