#pragma once

// One function for each machine instruction that C++ has no word for. Addresses named `shared_*` are byte addresses
// in shared memory, from shared_address(). What needs sm_90a says so; the rest runs on sm_80 and later.
#include "base/ptx/convert.cuh"
#include "base/ptx/copy.cuh"
#include "base/ptx/memory.cuh"
#include "base/ptx/multiply.cuh"
#include "base/ptx/schedule.cuh"
