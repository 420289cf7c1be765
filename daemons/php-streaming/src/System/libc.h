typedef unsigned int uint32_t;
typedef unsigned long size_t;
typedef long ssize_t;

struct EPOLL_PACKED epoll_event {
    uint32_t events;
    unsigned long descriptor;
};
struct timespec {
    long seconds;
    long nanoseconds;
};
struct iovec {
    void *base;
    size_t length;
};
struct msghdr {
    void *name;
    uint32_t name_length;
    struct iovec *parts;
    size_t part_count;
    void *control;
    size_t control_length;
    int flags;
};
/* A control message with room for the 253 descriptors that Linux lets one message carry (SCM_MAX_FD). */
struct rights {
    size_t length;
    int level;
    int type;
    int descriptors[254];
};

int *__errno_location(void);
int socket(int domain, int type, int protocol);
int bind(int socket, const char *address, uint32_t length);
int connect(int socket, const char *address, uint32_t length);
int listen(int socket, int backlog);
int accept4(int listener, void *address, void *length, int flags);
int shutdown(int socket, int how);
int close(int descriptor);
ssize_t send(int socket, const char *bytes, size_t length, int flags);
ssize_t recv(int socket, char *bytes, size_t length, int flags);
ssize_t recvmsg(int socket, struct msghdr *message, int flags);
ssize_t read(int descriptor, char *buffer, size_t length);
int getsockopt(int socket, int level, int option, int *value, uint32_t *length);
int setsockopt(int socket, int level, int option, const int *value, uint32_t length);
int epoll_create1(int flags);
int epoll_ctl(int instance, int operation, int descriptor, struct epoll_event *event);
int epoll_pwait2(int instance, struct epoll_event *events, int count, const struct timespec *timeout, const void *mask);
int signalfd(int descriptor, const char *mask, int flags);
