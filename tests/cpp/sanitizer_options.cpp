// What AddressSanitizer asks for when it starts: the CUDA driver needs the addresses that it would keep for itself, and
// both the driver and NVRTC keep memory until the process ends.
extern "C" {
[[gnu::visibility("default")]] const char* __asan_default_options();
[[gnu::visibility("default")]] const char* __lsan_default_suppressions();

const char* __asan_default_options() {
    return "protect_shadow_gap=0";
}

const char* __lsan_default_suppressions() {
    return "leak:libcuda.so\nleak:libnvrtc\nleak:libnvidia\n";
}
}
