# Settings of every target of this project: warnings and sanitizers.

function(tconv3d_compile_options target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        # GCC 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105651).
        target_compile_options(${target} PRIVATE -Wno-restrict)
    endif()
    if(TCONV3D_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    if(TCONV3D_SANITIZE)
        target_compile_options(${target} PRIVATE
            -fsanitize=${TCONV3D_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
        target_link_options(${target} PUBLIC -fsanitize=${TCONV3D_SANITIZE})
    endif()
endfunction()
