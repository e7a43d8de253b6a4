#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda/runtime/driver.hpp"
#include "cuda/tensorcore/config.hpp"

/// Which configs of a problem are worth running.
namespace tconv3d::cuda::tensorcore {

/// A config and the tables that it is made for.
struct Tiling {
    TapTables tables;
    Config config;

    /// What sets it apart from others of a problem.
    std::string name() const;
};

/// Calls `keep` with each config for the tables that fits the device.
void each_config(const Problem& problem, const TapTables& tables, const Device& device, Engine engine,
                 const std::function<void(const Config&)>& keep, Sizes sizes = Sizes::one);

/// The tables that a problem may be cut into.
std::vector<TapTables> all_tables(const Problem& problem, Engine engine, Form form);

/// The tilings with the least estimated clocks, the best first, no two of one name; empty when none fits.
std::vector<Tiling> best_tilings(const Problem& problem, const Device& device, Engine engine, Form form, size_t most);

} // namespace tconv3d::cuda::tensorcore
