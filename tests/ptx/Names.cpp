// Scopes form a tree; a name is looked up from the inside out.
#include "Names.h"

using namespace ptx;

const std::map<std::string, SpecialRegister> &ptx::specialRegisters() {
  using S = SpecialRegister;
  static const std::map<std::string, S> names = {
      // Those that a program defines by its launch. Clocks, %smid and the like
      // are
      // left out: their values are not defined.
      {"%tid.x", S::TidX},
      {"%tid.y", S::TidY},
      {"%tid.z", S::TidZ},
      {"%ntid.x", S::NtidX},
      {"%ntid.y", S::NtidY},
      {"%ntid.z", S::NtidZ},
      {"%ctaid.x", S::CtaidX},
      {"%ctaid.y", S::CtaidY},
      {"%ctaid.z", S::CtaidZ},
      {"%nctaid.x", S::NctaidX},
      {"%nctaid.y", S::NctaidY},
      {"%nctaid.z", S::NctaidZ},
      {"%laneid", S::LaneId},
      {"%warpid", S::WarpId},
      {"%nwarpid", S::NWarpId},
      {"%lanemask_eq", S::LaneMaskEq},
      {"%lanemask_lt", S::LaneMaskLt},
      {"%lanemask_le", S::LaneMaskLe},
      {"%lanemask_gt", S::LaneMaskGt},
      {"%lanemask_ge", S::LaneMaskGe},
      {"%dynamic_smem_size", S::DynamicSharedSize},
      {"%total_smem_size", S::TotalSharedSize}};
  return names;
}

bool Names::open() {
  // Scopes are never freed: late labels are looked up when all is parsed.
  if (scopes.size() > 4096)
    return false;
  scopes.push_back({innermostIndex, {}, {}, {}});
  innermostIndex = int(scopes.size()) - 1;
  return true;
}

const RegisterName *Names::findRegister(const std::string &name) const {
  for (int s = innermostIndex; s >= 0; s = scopes[size_t(s)].parent) {
    auto it = scopes[size_t(s)].registers.find(name);
    if (it != scopes[size_t(s)].registers.end())
      return &it->second;
  }
  return nullptr;
}

uint32_t
Names::resolve(const LabelUse &use,
               std::map<std::string, uint32_t> NameScope::*names) const {
  for (int s = use.scope; s >= 0; s = scopes[size_t(s)].parent) {
    const auto &known = scopes[size_t(s)].*names;
    auto it = known.find(use.name);
    if (it != known.end())
      return it->second;
  }
  throw ParseError(use.line, "label '" + use.name + "' is not defined");
}
