import java.io.FileOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A resource manager and two node managers. Arguments: the URL of the name node, and the file for the configuration. */
public class YarnCluster {
  public static void main(String[] args) throws Exception {
    YarnConfiguration conf = new YarnConfiguration();
    conf.set("fs.defaultFS", args[0]);
    conf.set("yarn.scheduler.capacity.root.queues", "default");
    conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
    conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
    conf.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 128);
    conf.setInt(YarnConfiguration.YARN_MINICLUSTER_NM_PMEM_MB, 4096);
    conf.setBoolean(YarnConfiguration.NM_VMEM_CHECK_ENABLED, false);
    conf.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100);
    MiniYARNCluster cluster = new MiniYARNCluster("yarn", 2, 1, 1);
    cluster.init(conf);
    cluster.start();
    Path target = Path.of(args[1]);
    Path part = target.resolveSibling("part");
    try (FileOutputStream file = new FileOutputStream(part.toFile())) {
      cluster.getConfig().writeXml(file);
    }
    Files.move(part, target);
  }
}
