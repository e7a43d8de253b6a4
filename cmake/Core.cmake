# The core library: no torch, no CUDA headers or toolkit. src/cpu/kernels.cpp is compiled once for each instruction set;
# src/cuda/kernels is embedded as text, for NVRTC to compile at run time.

file(GLOB_RECURSE core_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
set(kernel_source ${PROJECT_SOURCE_DIR}/src/cpu/kernels.cpp)
list(REMOVE_ITEM core_sources ${kernel_source})

include(GNUInstallDirs)
include(Embed)
find_package(Threads REQUIRED)

# The host compiles src/cuda/kernels/shared too, whose files include one another by their path from src/cuda/kernels.
set(TCONV3D_SOURCE_FOLDERS ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/cuda/kernels)

# Static always: its symbols are hidden, so that the operators export nothing but their registration.
add_library(tconv3d STATIC ${core_sources})
add_library(tconv3d::tconv3d ALIAS tconv3d)
target_compile_features(tconv3d PUBLIC cxx_std_17)
target_compile_definitions(tconv3d PRIVATE TCONV3D_VERSION="${PROJECT_VERSION}")
target_include_directories(tconv3d
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${TCONV3D_SOURCE_FOLDERS})
target_link_libraries(tconv3d PUBLIC Threads::Threads PRIVATE ${CMAKE_DL_LIBS})
tconv3d_embed_kernels(tconv3d)
tconv3d_compile_options(tconv3d)
# What most files read, read once: a quarter of their time. Every file still includes what it uses, which `make lint`
# checks by a build without precompiled headers.
target_precompile_headers(tconv3d PRIVATE <algorithm> <array> <cstdint> <functional> <map> <memory> <string> <vector>)

# Contraction and unobserved errno/traps free the vectoriser; NaN, infinity and the order of sums stay exact.
set(kernel_options -fno-math-errno -fno-trapping-math -ffp-contract=fast)

function(tconv3d_add_kernels isa)
    set(target tconv3d_kernels_${isa})
    add_library(${target} OBJECT ${kernel_source})
    target_compile_definitions(${target} PRIVATE TCONV3D_ISA_NAMESPACE=${isa})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(${target} PRIVATE ${kernel_options} ${ARGN})
    tconv3d_compile_options(${target})
    target_sources(tconv3d PRIVATE $<TARGET_OBJECTS:${target}>)
    if(TCONV3D_X86)
        target_compile_definitions(${target} PRIVATE TCONV3D_X86=1)
    endif()
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(TCONV3D_X86 ON)
    target_compile_definitions(tconv3d PRIVATE TCONV3D_X86=1)
endif()

# Portable first: of an inline function that several objects hold, the linker keeps the first copy.
tconv3d_add_kernels(portable)
if(TCONV3D_X86)
    set(avx2_options -mavx2 -mfma -mf16c)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        # Clang schedules for a processor before AVX2 unless told otherwise. Then the sums of a register block do not stay
        # in the 16 registers, which takes twice the time.
        list(APPEND avx2_options -mtune=haswell)
    endif()
    tconv3d_add_kernels(avx2 ${avx2_options})
    tconv3d_add_kernels(avx512
        -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c -mprefer-vector-width=512)
endif()
